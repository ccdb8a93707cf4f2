// prctl and syscall, by which a thread may forbid itself to read the TSC or to make system calls.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cstdarg>
#include <cstdint>

#include "base/call_filter.h"
#include "base/clock.h"
#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "base/text.h"
#include "hooks/export.h"
#include "life/process.h"
#include "life/exit_lines.h"
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

/// Strict seccomp leaves a thread only read, write, exit and the return from a signal, and no TSC.
/// From here on the thread's hooks record nothing, as if a hook were open for good. What they would
/// have recorded is counted.
void stay_silent_in_this_thread() {
  t_flags.in_hook = UINTPTR_MAX;
}

void before_filter(unsigned long filter) {
  const auto* program = reinterpret_cast<const sock_fprog*>(filter);
  if (!is_readable(program)) return;
  if (ends_our_calls(*program)) stop_for_filter();
  if (ends_calls_of_exit_lines(*program)) leave_out_command();
  if (ends_calls_of_lookups(*program)) give_up_lookups();
}

using Syscall = long (*)(long, long, long, long, long, long, long);
constinit Syscall g_syscall = nullptr;

/// Called before the program's first call, as in signals.cc.
__attribute__((constructor)) void resolve_syscall() {
  if (g_syscall == nullptr) g_syscall = reinterpret_cast<Syscall>(find_next("syscall"));
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
  if (option == PR_SET_SECCOMP && a == SECCOMP_MODE_FILTER) before_filter(b);
  const bool confined = option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT &&
                        real(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_DISABLED;
  if (confined && recording())
    say("a thread confines itself by strict seccomp: from here on nothing that it does is "
        "recorded");
  const int result = real(option, a, b, c, d);
  if (confined && result == 0) stay_silent_in_this_thread();
  return result;
}

// libc's syscall is variadic. Ours ends in a jump, so that the child of a bare clone returns as it
// would without us.
GPUPEAK_EXPORT long gpupeak_hook_syscall(long number, long a, long b, long c, long d, long e,
                                         long f) asm("syscall");
long gpupeak_hook_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (g_syscall == nullptr) resolve_syscall();
  if (number == SYS_prctl) return prctl(static_cast<int>(a), b, c, d, e);
  // A call with flags fails; libseccomp makes one to find out whether the system call exists.
  if (number == SYS_seccomp && a == SECCOMP_SET_MODE_STRICT && b == 0 && c == 0)
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
  if (number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER)
    before_filter(static_cast<unsigned long>(c));
  return g_syscall(number, a, b, c, d, e, f);
}
