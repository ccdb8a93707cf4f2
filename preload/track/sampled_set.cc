#include "track/sampled_set.h"

#include <atomic>
#include <cstddef>
#include <cstring>

#include "base/memory.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

constexpr uint32_t kSlots = 1 << 20;
constexpr uint32_t kWindow = 16;  // a block lies within 16 slots (two cache lines) of its hash

constinit std::atomic<uint64_t>* g_slots = nullptr;
constinit double g_mean_bytes = 0;

std::atomic<uint64_t>* window(const void* block) {
  const uint64_t mixed = reinterpret_cast<uint64_t>(block) * 0x9e3779b97f4a7c15u;
  return g_slots + (mixed >> 44) / kWindow * kWindow;
}

/// ln(x) for x in (0, 1], to about 1e-5: this library has no libm.
double natural_log(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0xfffffffffffffu) | 0x3ff0000000000000u;
  double m;
  memcpy(&m, &bits, sizeof m);  // 1 <= m < 2
  const double t = (m - 1) / (m + 1);
  const double t2 = t * t;
  return exponent * 0.6931471805599453 +
         2 * t * (1 + t2 * (1.0 / 3 + t2 * (1.0 / 5 + t2 * (1.0 / 7 + t2 / 9))));
}

}  // namespace

bool init_sampling(uint64_t mean_bytes) {
  if (g_slots == nullptr) {
    g_slots = static_cast<std::atomic<uint64_t>*>(reserve_pages(kSlots * sizeof(uint64_t)));
  }
  g_mean_bytes = static_cast<double>(mean_bytes);
  return g_slots != nullptr;
}

int64_t exponential_gap(uint64_t random) {
  const double uniform = (static_cast<double>(random >> 11) + 1) / 9007199254740992.0;  // (0, 1]
  return static_cast<int64_t>(-natural_log(uniform) * g_mean_bytes);
}

bool sampled_set_insert(const void* block) {
  std::atomic<uint64_t>* slots = window(block);
  for (uint32_t i = 0; i < kWindow; ++i) {
    uint64_t empty = 0;
    if (slots[i].compare_exchange_strong(empty, reinterpret_cast<uint64_t>(block),
                                         std::memory_order_relaxed)) {
      return true;
    }
  }
  count(&gpupeak_counters_page::dropped_events);
  return false;
}

bool sampled_set_erase(const void* block) {
  std::atomic<uint64_t>* slots = window(block);
  for (uint32_t i = 0; i < kWindow; ++i) {
    uint64_t mine = reinterpret_cast<uint64_t>(block);
    if (slots[i].load(std::memory_order_relaxed) == mine &&
        slots[i].compare_exchange_strong(mine, 0, std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

}  // namespace gpupeak::preload
