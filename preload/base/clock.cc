#include "base/clock.h"

#include <cpuid.h>

#include <ctime>

#include "gpupeak/log_format.h"

namespace gpupeak::preload {

bool g_use_tsc = false;

namespace {

uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock,
                &now);  // vDSO: async-signal-safe, no lock, and it cannot fail for these clocks
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

bool tsc_is_invariant() {
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8)) != 0;
}

}  // namespace

uint32_t init_clock() {
  g_use_tsc = tsc_is_invariant();
  return g_use_tsc ? GPUPEAK_CLOCK_TSC : GPUPEAK_CLOCK_MONOTONIC_NS;
}

uint64_t monotonic_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}
uint64_t realtime_ns() {
  return clock_ns(CLOCK_REALTIME);
}

}  // namespace gpupeak::preload
