// sigaction, and signal with its other names. For SIGBUS, which log/cut_guard.h guards, they set
// and return the program's own action. Other signals pass through.
#include <csignal>

#include "base/elf_lookup.h"
#include "hooks/export.h"
#include "log/cut_guard.h"

using namespace gpupeak::preload;

namespace {

using Signal = sighandler_t (*)(int, sighandler_t);
constexpr int kOnce = static_cast<int>(SA_RESETHAND) | SA_NODEFER;
constinit SetAction g_sigaction = nullptr;
constinit Signal g_signal = nullptr, g_sysv_signal = nullptr, g_sigset = nullptr;

/// Called before the program's first call. A signal handler must not look at the loaded libraries,
/// nor may a child that was forked while another thread had the loader's lock.
__attribute__((constructor)) void resolve() {
  if (g_sigset != nullptr) return;
  find_next({{"sigaction", g_sigaction},
             {"signal", g_signal},
             {"__sysv_signal", g_sysv_signal},
             {"sigset", g_sigset}});
}

/// Does what `set` does, a function like signal(). For SIGBUS it sets an action with `flags`,
/// during which SIGBUS is masked or not.
sighandler_t set_handler(const Signal& set, int number, sighandler_t handler, int flags,
                         bool masked) {
  if (g_sigset == nullptr) resolve();  // called by a library's constructor, before ours ran
  if (number != SIGBUS || handler == SIG_ERR) return set(number, handler);
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  if (masked) action.sa_mask.__val[0] = 1ul << (SIGBUS - 1);
  action.sa_flags = flags;
  return program_action(g_sigaction, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

}  // namespace

GPUPEAK_EXPORT int sigaction(int number, const struct sigaction* action, struct sigaction* old) {
  if (g_sigset == nullptr) resolve();
  return number == SIGBUS ? program_action(g_sigaction, action, old)
                          : g_sigaction(number, action, old);
}

GPUPEAK_EXPORT sighandler_t signal(int number, sighandler_t handler) {
  return set_handler(g_signal, number, handler, SA_RESTART, true);
}

GPUPEAK_EXPORT sighandler_t bsd_signal(int number, sighandler_t handler) {
  return set_handler(g_signal, number, handler, SA_RESTART, true);
}

GPUPEAK_EXPORT sighandler_t ssignal(int number, sighandler_t handler) {
  return set_handler(g_signal, number, handler, SA_RESTART, true);
}

GPUPEAK_EXPORT sighandler_t sysv_signal(int number, sighandler_t handler) {
  return set_handler(g_sysv_signal, number, handler, kOnce, false);
}

/// signal() in a program that asks for the C standard alone.
GPUPEAK_EXPORT sighandler_t __sysv_signal(int number, sighandler_t handler) {
  return set_handler(g_sysv_signal, number, handler, kOnce, false);
}

/// sigset() also changes the signal mask. The C library does all of that; only its answer may be
/// wrong for SIGBUS.
GPUPEAK_EXPORT sighandler_t sigset(int number, sighandler_t handler) {
  if (g_sigset == nullptr) resolve();
  if (number != SIGBUS) return g_sigset(number, handler);
  struct sigaction before {};
  program_action(g_sigaction, nullptr, &before);
  const sighandler_t answer = g_sigset(number, handler);
  return answer == SIG_ERR || answer == SIG_HOLD ? answer : before.sa_handler;
}
