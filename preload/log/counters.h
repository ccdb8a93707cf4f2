// The log's page of counters and gauges, which a program can read while it runs. Every function is
// HOOK-SAFE.
#pragma once

#include <cstdint>

#include "base/hot.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

extern constinit GPUPEAK_OWN gpupeak_counters_page* g_counters;
/// The counters page; before the log is open a private page, so that it can always be written.
inline gpupeak_counters_page& counters() {
  return *g_counters;
}
/// Usable bytes of the heap that are live, less what threads have not handed on yet. Of a forked
/// child what it has allocated since, 0 where it has freed more of its parent's.
inline uint64_t counted_heap_bytes() {
  const auto live = static_cast<int64_t>(counters().heap.live);
  return live > 0 ? static_cast<uint64_t>(live) : 0;
}
/// Of its gauges the peaks since the window began, each where the counters page has the gauge.
extern constinit GPUPEAK_OWN gpupeak_counters_page g_window;
inline uint64_t& window_peak_of(const gpupeak_gauge& gauge) {
  const auto offset = reinterpret_cast<const char*>(&gauge) - reinterpret_cast<char*>(g_counters);
  return reinterpret_cast<gpupeak_gauge*>(reinterpret_cast<char*>(&g_window) + offset)->peak;
}
void count(uint64_t gpupeak_counters_page::*counter, uint64_t by = 1);
void set_quality(uint64_t bit);

/// live += bytes, peak = max: exact at once when the caller serialises, as the device tracker does.
void gauge_add(gpupeak_gauge& gauge, int64_t bytes);
/// The same for what a thread has added up since its last call: on the way it was `high` bytes more
/// at most. The peak is exact as long as no other thread adds.
void gauge_add(gpupeak_gauge& gauge, int64_t bytes, int64_t high);
/// The gauge's peak since the last begin_window(), which leaves the gauge itself alone. Gauges of
/// the counters page only.
uint64_t window_peak(gpupeak_gauge& gauge);
void begin_window(gpupeak_gauge& gauge);

/// Raises it to `live`, if it is less.
void raise_peak(uint64_t& peak, uint64_t live);

/// The log is open: counts into its page from now on, with what was counted before.
void move_counters_to(gpupeak_counters_page* page);
/// In a forked child: the parent's page is not ours.
void forget_counters();
/// Usable bytes of the heap that were live when counters were forgotten: the child has them, too.
int64_t inherited_heap_bytes();

}  // namespace gpupeak::preload
