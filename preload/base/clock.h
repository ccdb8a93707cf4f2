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

/// The same two as below where g_use_tsc.
inline __attribute__((always_inline)) uint64_t tsc_before() {
  uint32_t low, high;
  asm volatile("rdtsc" : "=a"(low), "=d"(high)::"memory");
  return (static_cast<uint64_t>(high) << 32) | low;
}
inline __attribute__((always_inline)) uint64_t tsc() {
  asm volatile("lfence" ::: "memory");
  return tsc_before();
}

/// A time not later than what this thread does next: for what is logged before the real call.
inline uint64_t ticks_before() {
  return __builtin_expect(g_use_tsc, 1) ? tsc_before() : monotonic_ns();
}

/// A time not earlier than what this thread did before: an allocation must not seem older than the
/// free that made room for it. The processor may run rdtsc ahead of earlier loads; lfence holds it
/// back.
inline uint64_t ticks() {
  return __builtin_expect(g_use_tsc, 1) ? tsc() : monotonic_ns();
}

}  // namespace gpupeak::preload
