// sigaction and signal: for SIGBUS alone, which log/cut_guard.h guards, they set and tell the
// program's own action.
#include <csignal>

#include "base/elf_lookup.h"
#include "hooks/export.h"
#include "log/cut_guard.h"

using namespace gpupeak::preload;

namespace {

using Signal = sighandler_t (*)(int, sighandler_t);
constinit SetAction g_sigaction = nullptr;
constinit Signal g_signal = nullptr;

/// Before the program's first: a look at the loaded libraries is not for signal handlers, nor for a
/// child forked while another thread had the loader's lock.
__attribute__((constructor)) void resolve() {
  if (g_sigaction == nullptr) g_sigaction = reinterpret_cast<SetAction>(find_next("sigaction"));
  if (g_signal == nullptr) g_signal = reinterpret_cast<Signal>(find_next("signal"));
}

}  // namespace

GPUPEAK_EXPORT int sigaction(int number, const struct sigaction* action, struct sigaction* old) {
  if (g_sigaction == nullptr) resolve();  // a library's constructor, before ours
  return number == SIGBUS ? program_action(g_sigaction, action, old)
                          : g_sigaction(number, action, old);
}

GPUPEAK_EXPORT sighandler_t signal(int number, sighandler_t handler) {
  if (g_signal == nullptr) resolve();
  if (number != SIGBUS || handler == SIG_ERR) return g_signal(number, handler);
  struct sigaction action {
  }, old{};
  action.sa_handler = handler;
  action.sa_mask.__val[0] = 1ul << (SIGBUS - 1);
  action.sa_flags = SA_RESTART;
  return program_action(g_sigaction, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}
