#include "log/counters.h"

#include <atomic>

namespace gpupeak::preload {
namespace {

constinit gpupeak_counters_page g_private_counters{};
constinit gpupeak_counters_page g_window{};  // of its gauges the peaks since the window began

/// The window's peak lies in a page of our own, where the gauge lies in the counters page.
uint64_t& window_peak_of(const gpupeak_gauge& gauge) {
  const auto offset = reinterpret_cast<const char*>(&gauge) - reinterpret_cast<char*>(g_counters);
  return reinterpret_cast<gpupeak_gauge*>(reinterpret_cast<char*>(&g_window) + offset)->peak;
}

}  // namespace

constinit gpupeak_counters_page* g_counters = &g_private_counters;

void count(uint64_t gpupeak_counters_page::*counter, uint64_t by) {
  std::atomic_ref<uint64_t>(g_counters->*counter).fetch_add(by, std::memory_order_relaxed);
}

void set_quality(uint64_t bit) {
  std::atomic_ref<uint64_t> quality(g_counters->quality);
  if ((quality.load(std::memory_order_relaxed) & bit) == 0) {
    quality.fetch_or(bit, std::memory_order_relaxed);
  }
}

void gauge_add(gpupeak_gauge& gauge, int64_t bytes) {
  const uint64_t live = std::atomic_ref<uint64_t>(gauge.live)
                            .fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed) +
                        static_cast<uint64_t>(bytes);
  if (bytes <= 0 || static_cast<int64_t>(live) < 0) return;
  raise_peak(gauge.peak, live);
  raise_peak(window_peak_of(gauge), live);
}

uint64_t window_peak(gpupeak_gauge& gauge) {
  return std::atomic_ref<uint64_t>(window_peak_of(gauge)).load(std::memory_order_relaxed);
}

void begin_window(gpupeak_gauge& gauge) {
  const uint64_t live = std::atomic_ref<uint64_t>(gauge.live).load(std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(window_peak_of(gauge))
      .store(static_cast<int64_t>(live) < 0 ? 0 : live, std::memory_order_relaxed);
}

void raise_peak(uint64_t& peak, uint64_t live) {
  std::atomic_ref<uint64_t> largest(peak);
  uint64_t seen = largest.load(std::memory_order_relaxed);
  while (live > seen && !largest.compare_exchange_weak(seen, live, std::memory_order_relaxed)) {
  }
}

void move_counters_to(gpupeak_counters_page* page) {
  *page = g_private_counters;
  g_counters = page;
}

void forget_counters() {
  g_private_counters = {};
  g_window = {};
  g_counters = &g_private_counters;
}

}  // namespace gpupeak::preload
