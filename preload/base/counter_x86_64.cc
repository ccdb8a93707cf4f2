#include <cpuid.h>

#include <cstring>

#include "base/arch.h"
#include "base/proc_file.h"

namespace gpupeak::preload {
namespace {

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

bool arch::counter_can_be_trusted() {
  return tsc_is_invariant() && kernel_trusts_tsc();
}

}  // namespace gpupeak::preload
