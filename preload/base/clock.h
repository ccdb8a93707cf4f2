// Time stamps. If the processor's counter can be trusted, a tick is 16 cycles of the TSC (x86-64)
// or one count of CNTVCT (aarch64); else it is a nanosecond of CLOCK_MONOTONIC. HOOK-SAFE.
#pragma once

#include <cstdint>
#include <ctime>

#include "base/arch.h"
#include "base/compiler.h"

namespace gpupeak::preload {

constexpr uint64_t kNsPerSecond = 1'000'000'000;

/// Call once before ticks(). Returns an enum gpupeak_clock.
uint32_t init_clock();
extern GPUPEAK_OWN bool g_use_tsc;
uint64_t monotonic_ns();
uint64_t realtime_ns();
/// The processor time that the calling thread has had.
uint64_t thread_cpu_ns();

/// All clocks at one instant, as closely as `tries` readings come: the thread may lose its
/// processor between two clocks, and a function that runs for the first time may take long.
struct Instant {
  uint64_t ticks = 0, monotonic_ns = 0, realtime_ns = 0;
  uint64_t error_ns = UINT64_MAX;  ///< the others were read at most this much after monotonic_ns
};
Instant now_by_all_clocks(int tries = 8);

/// Call it when the calling thread is about to forbid itself, and threads that it will start, to
/// read the TSC. From then on no thread reads it.
void leave_tsc();
/// ticks() without the TSC.
uint64_t ticks_without_tsc();

/// The processor's own counter; equal to ticks() if g_use_tsc.
inline __attribute__((always_inline)) uint64_t tsc() {
  return arch::counter();
}

/// A clock that moves at least every 5 ms and is cheap to read; nullptr: there is none. The vDSO's
/// coarse clock moves with the kernel's tick, and reads no counter: it costs a fifth of ticks().
using CoarseClock = int (*)(clockid_t, timespec*);
extern GPUPEAK_OWN CoarseClock g_coarse_clock;
/// Whether that clock has moved since `then`, which becomes what it says now.
inline __attribute__((always_inline)) bool coarse_clock_moved(uint32_t& then) {
  const CoarseClock read = __atomic_load_n(&g_coarse_clock, __ATOMIC_RELAXED);
  if (__builtin_expect(read == nullptr, 0)) return true;
  timespec now;
  read(CLOCK_MONOTONIC_COARSE, &now);
  const uint32_t before = then;
  then = static_cast<uint32_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint32_t>(now.tv_nsec);
  return then != before;
}

/// A time that is not earlier than what this thread did before, not later than what it does next,
/// and not later than what other threads do because of it: docs/design.md, "Order".
inline uint64_t ticks() {
  return __builtin_expect(g_use_tsc, 1) ? tsc() : ticks_without_tsc();
}

}  // namespace gpupeak::preload
