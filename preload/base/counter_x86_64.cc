#include <cpuid.h>

#include <cstdint>
#include <cstring>
#include <ctime>
#include <string_view>

#include "base/arch.h"
#include "base/proc_file.h"
#include "base/syscalls.h"

namespace gpupeak::preload {
namespace {

bool has(unsigned leaf, unsigned bit) {
  unsigned a, b, c, d;
  return __get_cpuid(leaf, &a, &b, &c, &d) && (d & (1u << bit)) != 0;
}
/// Whether the TSC ticks evenly, and in sleep states too.
bool tsc_is_invariant() {
  return has(0x80000007, 8);
}

/// Whether the kernel keeps time by this clock. The kernel watches whether the TSCs of all
/// processors are in step, and leaves the TSC if not.
bool kernel_goes_by(std::string_view clock) {
  char name[16];
  const size_t bytes = read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                                 name, sizeof name);
  return bytes == clock.size() + 1 && memcmp(name, clock.data(), clock.size()) == 0;
}

/// Whether clock_gettime answers without the kernel. The shortest time of some tries counts, since
/// disturbances only make a try longer; and if clock_gettime calls the kernel, it is never quicker
/// than a direct call.
bool reads_time_itself() {
  constexpr int kTries = 16;
  uint64_t library = UINT64_MAX, kernel = UINT64_MAX;
  timespec now{};
  const auto time = [](uint64_t& shortest, auto&& read) {
    const uint64_t begin = __builtin_ia32_rdtsc();
    read();
    const uint64_t took = __builtin_ia32_rdtsc() - begin;
    if (took < shortest) shortest = took;
  };
  for (int i = 0; i < kTries; ++i) {
    time(library, [&] { clock_gettime(CLOCK_MONOTONIC, &now); });
    time(kernel, [&] { sys::clock_gettime(CLOCK_MONOTONIC, &now); });
  }
  return library < kernel / 2;
}

/// kvm-clock is a guest's clock for which the hypervisor gives the TSC's parameters. With them it
/// says (PVCLOCK_TSC_STABLE_BIT) whether the TSCs of all virtual processors are in step. Only then
/// does clock_gettime answer by them, by one set for all processors: so what the kernel's clock
/// orders, the TSC orders too.
bool hypervisor_trusts_tsc() {
  return kernel_goes_by("kvm-clock") && reads_time_itself();
}

}  // namespace

bool arch::counter_can_be_trusted() {
  const bool has_rdtscp = has(0x80000001, 27);
  if (!has_rdtscp) return false;
  return (tsc_is_invariant() && kernel_goes_by("tsc")) || hypervisor_trusts_tsc();
}

}  // namespace gpupeak::preload
