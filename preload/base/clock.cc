#include "base/clock.h"

#include <sys/prctl.h>

#include <atomic>

#include "base/elf_lookup.h"
#include "base/syscalls.h"

namespace gpupeak::preload {

bool g_use_tsc = false;
CoarseClock g_coarse_clock = nullptr;

namespace {

bool g_tsc_faults = false;

/// Ticks from nanoseconds of CLOCK_MONOTONIC: base_ticks + (ns - base_ns) × ticks_per_ns.
struct Conversion {
  uint64_t base_ns = 0;
  uint64_t base_ticks = 0;
  double ticks_per_ns = 1;
};
Conversion g_conversion;
uint64_t g_start_ns = 0;  // when the TSC was g_start_ticks
uint64_t g_start_ticks = 0;

/// A time later than all that was stamped before, in this thread and others. A clock that stands
/// still for longer than threads need to hand something over cannot give this by itself.
uint64_t later_than_all(uint64_t now) {
  static constinit std::atomic<uint64_t> latest{0};
  std::atomic_thread_fence(std::memory_order_seq_cst);  // after what this thread has seen
  uint64_t before = latest.load(std::memory_order_relaxed), stamp;
  do {
    stamp = now > before ? now : before + 1;
  } while (!latest.compare_exchange_weak(before, stamp, std::memory_order_relaxed));
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before what this thread shows
  return stamp;
}

uint64_t clock_ns(clockid_t clock) {
  timespec now{};
  if (__builtin_expect(g_tsc_faults, 0)) {  // the vDSO reads the TSC too
    sys::clock_gettime(clock, &now);
  } else {
    clock_gettime(clock, &now);  // vDSO: async-signal-safe, no lock; cannot fail for these clocks
  }
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

/// The processor's counter as a coarse clock: it need not be in step with other processors'.
int read_counter(clockid_t, timespec* now) {
  constexpr int kBits = 16;  // 0.3 ms of x86's counts, 2.6 ms of the slowest aarch64's
  *now = {0, static_cast<long>((arch::unordered_counter() >> kBits) & UINT32_MAX)};
  return 0;
}

/// Whether the clock answers without the kernel, as gVisor's vDSO does not. Only then are eight
/// readings quicker than four of the shortest system calls.
bool is_quick(CoarseClock read) {
  const auto shortest = [](auto&& run) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 4; ++i) {
      const uint64_t begin = monotonic_ns();
      run();
      const uint64_t took = monotonic_ns() - begin;
      if (took < least) least = took;
    }
    return least;
  };
  timespec now;
  const uint64_t readings = shortest([&] {
    for (int i = 0; i < 8; ++i) read(CLOCK_MONOTONIC_COARSE, &now);
  });
  return readings < 4 * shortest([] { sys::getpid(); });
}

CoarseClock find_coarse_clock() {
  constexpr long kLongestNs = 5'000'000;
  for (const char* const library : {"linux-vdso", "linux-gate"}) {  // glibc's name, and musl's
    const auto in_vdso = [library](const char* name) {
      return reinterpret_cast<CoarseClock>(find_in(library, name));
    };
    const CoarseClock read = in_vdso(arch::kVdsoClock), resolution = in_vdso(arch::kVdsoResolution);
    timespec tick{};
    if (read == nullptr || resolution == nullptr) continue;
    if (resolution(CLOCK_MONOTONIC_COARSE, &tick) != 0 || tick.tv_nsec > kLongestNs) continue;
    if (is_quick(read)) return read;
  }
  if (!g_tsc_faults && is_quick(read_counter)) return read_counter;
  return nullptr;
}

}  // namespace

uint32_t init_clock() {
  // The program may have asked for a signal in place of the time (PR_SET_TSC), even before exec. If
  // one thread faults, others may too.
  int mode = PR_TSC_ENABLE;
  sys::prctl(PR_GET_TSC, &mode);
  g_tsc_faults = g_tsc_faults || mode == PR_TSC_SIGSEGV;
  g_use_tsc = !g_tsc_faults && arch::counter_can_be_trusted();
  g_conversion = {};
  if (g_use_tsc) {
    g_start_ns = monotonic_ns();
    g_start_ticks = tsc();
  }
  static bool looked = false;
  if (!looked) g_coarse_clock = find_coarse_clock();
  looked = true;
  return g_use_tsc ? arch::kCounter : GPUPEAK_CLOCK_MONOTONIC_NS;
}

// Another thread may read the TSC once more, if it has just looked at g_use_tsc. The nanoseconds
// are read before the TSC here, so a stamp without the TSC is never earlier than the TSC's: an
// event after that last reading has a later stamp. That reading cannot come after an event that was
// stamped without the TSC: its thread would have seen the new g_use_tsc too.
void leave_tsc() {
  if (g_use_tsc) {
    constexpr uint64_t kShortestNs = 1'000'000;  // to know the ratio to some 1e-5
    Conversion now;
    do {
      now.base_ns = monotonic_ns();
      now.base_ticks = tsc();
    } while (now.base_ns - g_start_ns < kShortestNs);
    now.ticks_per_ns = static_cast<double>(now.base_ticks - g_start_ticks) /
                       static_cast<double>(now.base_ns - g_start_ns);
    g_conversion = now;
  }
  if (g_coarse_clock == read_counter)
    std::atomic_ref<CoarseClock>(g_coarse_clock).store(nullptr, std::memory_order_relaxed);
  std::atomic_ref<bool>(g_tsc_faults).store(true, std::memory_order_release);
  std::atomic_ref<bool>(g_use_tsc).store(false, std::memory_order_release);
}

uint64_t ticks_without_tsc() {
  const double ns = static_cast<double>(monotonic_ns() - g_conversion.base_ns);
  const uint64_t now =
      g_conversion.base_ticks + static_cast<uint64_t>(ns * g_conversion.ticks_per_ns);
  return arch::kKernelClockMayStandStill ? later_than_all(now) : now;
}

uint64_t monotonic_ns() {
  return clock_ns(CLOCK_MONOTONIC);
}
uint64_t realtime_ns() {
  return clock_ns(CLOCK_REALTIME);
}
uint64_t thread_cpu_ns() {
  return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

Instant now_by_all_clocks(int tries) {
  Instant best;
  for (int i = 0; i < tries; ++i) {
    Instant now{.monotonic_ns = monotonic_ns(), .realtime_ns = realtime_ns()};
    now.ticks = ticks();
    now.error_ns = monotonic_ns() - now.monotonic_ns;
    if (now.error_ns < best.error_ns) best = now;
  }
  return best;
}

}  // namespace gpupeak::preload
