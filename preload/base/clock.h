// Time stamps. A tick is that of the processor's time stamp counter where that can be trusted
// (x86-64: 16 cycles of the TSC, aarch64: one of CNTVCT), else a nanosecond of CLOCK_MONOTONIC.
// HOOK-SAFE.
#pragma once

#include <cstdint>

#include "base/arch.h"
#include "base/hot.h"

namespace gpupeak::preload {

/// Call once before ticks(). Returns an enum gpupeak_clock.
uint32_t init_clock();
extern GPUPEAK_OWN bool g_use_tsc;
uint64_t monotonic_ns();
uint64_t realtime_ns();

/// All clocks at one instant, as closely as some tries come: the thread may lose its processor
/// between two readings, and a function that runs for the first time may take long.
struct Instant {
  uint64_t ticks = 0, monotonic_ns = 0, realtime_ns = 0;
  uint64_t error_ns = UINT64_MAX;  ///< so much after monotonic_ns the others were read, at most
};
Instant now_by_all_clocks(int tries = 8);

/// The calling thread is about to forbid itself, and those it will start, to read the TSC: from now
/// on no thread does.
void leave_tsc();
/// The same time where the TSC is not read.
uint64_t ticks_without_tsc();

/// The processor's own counter: the same as below where g_use_tsc.
inline __attribute__((always_inline)) uint64_t tsc() {
  return arch::counter();
}

/// A time not earlier than what this thread did before, and not later than what it does next, nor
/// than what other threads do because of it. docs/design.md, "Order".
inline uint64_t ticks() {
  return __builtin_expect(g_use_tsc, 1) ? tsc() : ticks_without_tsc();
}

}  // namespace gpupeak::preload
