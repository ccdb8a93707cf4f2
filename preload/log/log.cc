#include "log/log.h"

namespace gpupeak::preload {
namespace {

constinit gpupeak_counters_page g_private_counters{};
constinit int64_t g_inherited_heap_bytes = 0;

}  // namespace

constinit gpupeak_counters_page g_window{};
constinit gpupeak_counters_page* g_counters = &g_private_counters;

void count(uint64_t gpupeak_counters_page::*counter, uint64_t by) {
  std::atomic_ref<uint64_t>(g_counters->*counter).fetch_add(by, std::memory_order_relaxed);
}

void set_quality(uint64_t bit) {
  std::atomic_ref<uint64_t> quality(g_counters->quality);
  if ((quality.load(std::memory_order_relaxed) & bit) == 0)
    quality.fetch_or(bit, std::memory_order_relaxed);
}

void gauge_add(gpupeak_gauge& gauge, int64_t bytes, int64_t high) {
  const uint64_t most = std::atomic_ref<uint64_t>(gauge.live)
                            .fetch_add(static_cast<uint64_t>(bytes), std::memory_order_relaxed) +
                        static_cast<uint64_t>(high);
  if (high <= 0 || static_cast<int64_t>(most) < 0) return;
  raise_to(std::atomic_ref<uint64_t>(gauge.peak), most);
  raise_to(std::atomic_ref<uint64_t>(window_peak_of(gauge)), most);
}

uint64_t window_peak(gpupeak_gauge& gauge) {
  const uint64_t peak =
      std::atomic_ref<uint64_t>(window_peak_of(gauge)).load(std::memory_order_relaxed);
  const uint64_t live = std::atomic_ref<uint64_t>(gauge.live).load(std::memory_order_relaxed);
  return static_cast<int64_t>(live) > static_cast<int64_t>(peak) ? live : peak;
}

void begin_window(gpupeak_gauge& gauge) {
  const uint64_t live = std::atomic_ref<uint64_t>(gauge.live).load(std::memory_order_relaxed);
  std::atomic_ref<uint64_t>(window_peak_of(gauge))
      .store(static_cast<int64_t>(live) < 0 ? 0 : live, std::memory_order_relaxed);
}

void move_counters_to(gpupeak_counters_page* page) {
  *page = g_private_counters;
  g_counters = page;
}

void forget_counters() {
  g_inherited_heap_bytes += static_cast<int64_t>(g_counters->heap.live);
  g_private_counters = {};
  g_window = {};
  g_counters = &g_private_counters;
}

int64_t inherited_heap_bytes() {
  return g_inherited_heap_bytes;
}

}  // namespace gpupeak::preload
