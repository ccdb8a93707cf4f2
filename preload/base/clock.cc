#include "base/clock.h"

#include <cpuid.h>
#include <sys/prctl.h>

#include <cstring>
#include <ctime>

#include "base/proc_file.h"
#include "base/syscalls.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

bool g_use_tsc = false;

namespace {

bool g_tsc_faults = false;

uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  if (__builtin_expect(g_tsc_faults, 0)) {  // the vDSO reads it too
    sys::call6(SYS_clock_gettime, clock, reinterpret_cast<long>(&now), 0, 0, 0, 0);
  } else {
    clock_gettime(clock, &now);  // vDSO: async-signal-safe, no lock; cannot fail for these clocks
  }
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

/// The program may have asked for a signal in place of the time (PR_SET_TSC), also before exec.
bool tsc_faults() {
  int mode = PR_TSC_ENABLE;
  sys::call6(SYS_prctl, PR_GET_TSC, reinterpret_cast<long>(&mode), 0, 0, 0, 0);
  return mode == PR_TSC_SIGSEGV;
}

/// That it ticks evenly and through sleep states, and that rdtscp exists.
bool tsc_is_invariant() {
  unsigned a, b, c, d;
  return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8)) != 0 &&
         __get_cpuid(0x80000001, &a, &b, &c, &d) && (d & (1u << 27)) != 0;
}

/// That it is in step over all processors: the kernel watches that, and leaves it if not.
bool kernel_trusts_tsc() {
  char name[8];
  const size_t bytes = read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                                 name, sizeof name);
  return bytes == 4 && memcmp(name, "tsc\n", 4) == 0;
}

}  // namespace

uint32_t init_clock() {
  g_tsc_faults = tsc_faults();
  g_use_tsc = !g_tsc_faults && tsc_is_invariant() && kernel_trusts_tsc();
  return g_use_tsc ? GPUPEAK_CLOCK_TSC : GPUPEAK_CLOCK_MONOTONIC_NS;
}

uint64_t monotonic_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}
uint64_t realtime_ns() {
  return clock_ns(CLOCK_REALTIME);
}

}  // namespace gpupeak::preload
