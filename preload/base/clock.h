// Time stamps. A tick is a TSC cycle where the processor says that its TSC is invariant, else a
// nanosecond of CLOCK_MONOTONIC. HOOK-SAFE.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// Call once before ticks(). Returns an enum gpupeak_clock.
uint32_t init_clock();
extern bool g_use_tsc;
uint64_t monotonic_ns();
uint64_t realtime_ns();

/// Now, after all that this thread did before (an allocation must not seem older than the free that
/// made room for it).
inline uint64_t ticks() {
  if (__builtin_expect(g_use_tsc, 1)) {
    uint32_t low, high, cpu;
    asm volatile("rdtscp" : "=a"(low), "=d"(high), "=c"(cpu)::"memory");
    return (static_cast<uint64_t>(high) << 32) | low;
  }
  return monotonic_ns();
}

}  // namespace gpupeak::preload
