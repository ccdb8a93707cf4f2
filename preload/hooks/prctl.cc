// prctl: a thread that forbids itself to read the TSC, or nearly all system calls.
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstdarg>
#include <cstdint>

#include "base/clock.h"
#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "base/text.h"
#include "hooks/export.h"
#include "log/log.h"

namespace gpupeak::preload {
namespace {

using Prctl = int (*)(int, ...);

Prctl real_prctl() {
  static Prctl found = nullptr;
  Prctl real = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (real == nullptr) {
    real = reinterpret_cast<Prctl>(find_next("prctl"));
    __atomic_store_n(&found, real, __ATOMIC_RELAXED);
  }
  return real;
}

void do_without_tsc() {
  if (!g_use_tsc) return leave_tsc();
  leave_tsc();
  if (recording()) set_quality(GPUPEAK_Q_NO_TSC);
}

/// Read, write, exit and return from a signal are all that the kernel leaves such a thread, and no
/// TSC. Its hooks pass through from here on, as if one were open for good: what they would have
/// recorded is counted.
void stay_silent_in_this_thread() {
  t_flags.in_hook = UINTPTR_MAX;
}

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT int prctl(int option, ...) {
  va_list arguments;
  va_start(arguments, option);
  const unsigned long a = va_arg(arguments, unsigned long), b = va_arg(arguments, unsigned long),
                      c = va_arg(arguments, unsigned long), d = va_arg(arguments, unsigned long);
  va_end(arguments);
  const Prctl real = real_prctl();
  if (option == PR_SET_TSC && a == PR_TSC_SIGSEGV) do_without_tsc();
  const bool confined = option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT &&
                        real(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_DISABLED;
  if (confined && recording())
    say("a thread confines itself by strict seccomp: from here on nothing that it does is "
        "recorded");
  const int result = real(option, a, b, c, d);
  if (confined && result == 0) stay_silent_in_this_thread();
  return result;
}
