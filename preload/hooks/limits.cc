// setrlimit and its family. A program may limit its own addresses (RLIMIT_AS). The kernel counts
// our addresses, too, so those that we have only reserved are given back first.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <cstdarg>

#include "base/call_filter.h"
#include "base/clock.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "base/next_functions.h"
#include "base/process_state.h"
#include "base/syscalls.h"
#include "base/text.h"
#include "hooks/export.h"
#include "life/process.h"
#include "log/log.h"
#include "stack/trie.h"
#include "track/card_server.h"

namespace gpupeak::preload {
namespace {

void give_back_addresses() {
  if (is_stopped_for_filter()) return;  // a system call of ours might end the program
  const HookScope scope;
  if (!scope.entered()) return;
  if (!recording()) return give_back_spare_nodes();
  if (g_process->pid != sys::getpid()) return;  // a vfork child: the addresses are its parent's
  const LockGuard guard(definitions_lock());
  give_back_spare_nodes();
}

void before_limit(int resource, const struct rlimit* limit) {
  if (resource == RLIMIT_AS && limit != nullptr && limit->rlim_cur != RLIM_INFINITY)
    give_back_addresses();
}

constexpr int kSetDispatch = 59;  // PR_SET_SYSCALL_USER_DISPATCH, Linux 5.11

void do_without_tsc() {
  if (!g_use_tsc) return leave_tsc();
  leave_tsc();
  if (recording()) set_quality(GPUPEAK_Q_NO_TSC);
}

/// Strict seccomp leaves a thread only read, write, exit and the return from a signal, and no TSC.
/// With Syscall User Dispatch (Wine) system calls from outside the range that the program names
/// come to its handler, ours too. From here on the thread's hooks record nothing, as if a hook were
/// open for good. What they would have recorded is counted. Nor does it block signals, where it
/// still looks a function up.
void stay_silent_in_this_thread() {
  t_flags.in_hook = UINTPTR_MAX;
  ++t_flags.signals_held;
}

void before_filter(unsigned long filter) {
  const auto* program = reinterpret_cast<const sock_fprog*>(filter);
  if (!is_readable(program)) return;
  leave_card_server();
  if (ends_our_calls(*program)) stop_for_filter();
  if (ends_calls_of_exit_lines(*program)) leave_out_command();
  if (ends_calls_of_lookups(*program)) give_up_lookups();
}

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT int gpupeak_hook_setrlimit(int, const struct rlimit*) asm("setrlimit");
int gpupeak_hook_setrlimit(int resource, const struct rlimit* limit) {
  before_limit(resource, limit);
  return next().setrlimit(resource, limit);
}

GPUPEAK_EXPORT int gpupeak_hook_prlimit(pid_t, int, const struct rlimit*,
                                        struct rlimit*) asm("prlimit");
int gpupeak_hook_prlimit(pid_t pid, int resource, const struct rlimit* limit, struct rlimit* old) {
  if (pid == 0 || (resource == RLIMIT_AS && pid == sys::getpid())) before_limit(resource, limit);
  return next().prlimit(pid, resource, limit, old);
}

// On 64-bit processors these are the same functions.
GPUPEAK_EXPORT int gpupeak_hook_setrlimit64(int, const struct rlimit*) asm("setrlimit64")
    __attribute__((alias("setrlimit")));
GPUPEAK_EXPORT int gpupeak_hook_prlimit64(pid_t, int, const struct rlimit*,
                                          struct rlimit*) asm("prlimit64")
    __attribute__((alias("prlimit")));

// prctl and syscall, by which a thread may forbid itself to read the TSC or to make system calls.

GPUPEAK_EXPORT int prctl(int option, ...) {
  va_list arguments;
  va_start(arguments, option);
  const unsigned long a = va_arg(arguments, unsigned long), b = va_arg(arguments, unsigned long),
                      c = va_arg(arguments, unsigned long), d = va_arg(arguments, unsigned long);
  va_end(arguments);
  if (option == PR_SET_TSC && a == PR_TSC_SIGSEGV) do_without_tsc();
  if (option == PR_SET_SECCOMP && a == SECCOMP_MODE_FILTER) before_filter(b);
  const bool confined = option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT &&
                        next().prctl(PR_GET_SECCOMP, 0, 0, 0, 0) == SECCOMP_MODE_DISABLED;
  const bool dispatched = option == kSetDispatch && a != 0 && t_flags.in_hook != UINTPTR_MAX;
  if (confined && recording())
    say("a thread confines itself by strict seccomp: from here on nothing that it does is "
        "recorded");
  if (dispatched && recording())
    say("a thread has its system calls dispatched (PR_SET_SYSCALL_USER_DISPATCH): from here on "
        "nothing that it does is recorded");
  const int result = next().prctl(option, a, b, c, d);
  if ((confined || dispatched) && result == 0) stay_silent_in_this_thread();
  return result;
}

// libc's syscall is variadic. Ours ends in a jump, so that the child of a bare clone returns as it
// would without us.
GPUPEAK_EXPORT long gpupeak_hook_syscall(long number, long a, long b, long c, long d, long e,
                                         long f) asm("syscall");
long gpupeak_hook_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number == SYS_prctl) return prctl(static_cast<int>(a), b, c, d, e);
  // A call with flags fails; libseccomp makes one to find out whether the system call exists.
  if (number == SYS_seccomp && a == SECCOMP_SET_MODE_STRICT && b == 0 && c == 0)
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0, 0, 0);
  if (number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER)
    before_filter(static_cast<unsigned long>(c));
  return next().syscall(number, a, b, c, d, e, f);
}
