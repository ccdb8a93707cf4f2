// Time stamps. A tick is a TSC cycle where the kernel itself keeps time by the TSC, else a
// nanosecond of CLOCK_MONOTONIC. HOOK-SAFE.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// Call once before ticks(). Returns an enum gpupeak_clock.
uint32_t init_clock();
extern bool g_use_tsc;
uint64_t monotonic_ns();
uint64_t realtime_ns();
/// The calling thread is about to forbid itself, and those it will start, to read the TSC: from now
/// on no thread does.
void leave_tsc();
/// The same time where the TSC is not read.
uint64_t ticks_without_tsc();

/// The same as below where g_use_tsc. rdtscp reads the time when all loads before it have their
/// values, so never before the load that told this thread what another one has done; and what this
/// thread stores afterwards others see only when the time has been read. rdtsc does neither.
inline __attribute__((always_inline)) uint64_t tsc() {
  uint32_t low, high;
  asm volatile("rdtscp" : "=a"(low), "=d"(high)::"rcx", "memory");
  return (static_cast<uint64_t>(high) << 32) | low;
}

/// A time not earlier than what this thread did before, and not later than what it does next, nor
/// than what other threads do because of it. docs/design.md, "Order".
inline uint64_t ticks() {
  return __builtin_expect(g_use_tsc, 1) ? tsc() : ticks_without_tsc();
}

}  // namespace gpupeak::preload
