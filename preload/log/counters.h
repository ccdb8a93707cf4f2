// The log's page of counters and gauges, which a program can read while it runs. Every function is
// HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/hot.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

extern constinit GPUPEAK_OWN gpupeak_counters_page* g_counters;
/// The counters page; before the log is open a private page, so that it can always be written.
inline gpupeak_counters_page& counters() {
  return *g_counters;
}
/// Live usable bytes of the heap, without what threads have not handed on yet. In a forked child:
/// of what it has allocated itself; 0 if it has freed more of its parent's.
inline uint64_t counted_heap_bytes() {
  const auto live = static_cast<int64_t>(
      std::atomic_ref<uint64_t>(counters().heap.live).load(std::memory_order_relaxed));
  return live > 0 ? static_cast<uint64_t>(live) : 0;
}
/// The gauges' peaks since the window began, each at its gauge's place in the counters page.
extern constinit GPUPEAK_OWN gpupeak_counters_page g_window;
inline uint64_t& window_peak_of(const gpupeak_gauge& gauge) {
  const auto offset = reinterpret_cast<const char*>(&gauge) - reinterpret_cast<char*>(g_counters);
  return reinterpret_cast<gpupeak_gauge*>(reinterpret_cast<char*>(&g_window) + offset)->peak;
}
void count(uint64_t gpupeak_counters_page::*counter, uint64_t by = 1);
void set_quality(uint64_t bit);

/// live += bytes, peak = max: exact at once if one caller adds at a time, as the device tracker.
void gauge_add(gpupeak_gauge& gauge, int64_t bytes);
/// The same for what a thread has added up since its last call; in between, the sum was at most
/// `high`. The peak is exact as long as no other thread adds.
void gauge_add(gpupeak_gauge& gauge, int64_t bytes, int64_t high);
/// The gauge's peak since the last begin_window(), which leaves the gauge itself alone. Gauges of
/// the counters page only.
uint64_t window_peak(gpupeak_gauge& gauge);
void begin_window(gpupeak_gauge& gauge);

/// Raises `peak` to `live` if it is less.
void raise_peak(uint64_t& peak, uint64_t live);

/// Call it when the log is open: its page counts from now on, and begins with the counts so far.
void move_counters_to(gpupeak_counters_page* page);
/// In a forked child, where the parent's page is not ours, or when the log has ended.
void forget_counters();
/// Usable bytes of the heap that were live when counters were forgotten: the child has them, too.
int64_t inherited_heap_bytes();

}  // namespace gpupeak::preload
