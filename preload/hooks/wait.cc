// The wait family, by which a program learns how its children ended. A child that a signal ended is
// noted, since the log of a killed process cannot say so. `wait` itself is left alone: libraries
// have functions of that name that do something else.
#include <sys/wait.h>

#include "base/elf_lookup.h"
#include "hooks/export.h"
#include "life/killed_children.h"

namespace gpupeak::preload {
namespace {

struct RealWait {
  pid_t (*waitpid)(pid_t, int*, int);
  pid_t (*wait3)(int*, int, rusage*);
  pid_t (*wait4)(pid_t, int*, int, rusage*);
  int (*waitid)(idtype_t, id_t, siginfo_t*, int);
};
constinit RealWait g_real{};

/// Called before main, since in a signal handler the loader's lock may be held.
__attribute__((constructor)) void resolve_all() {
  if (g_real.waitid != nullptr) return;
  find_next({{"waitpid", g_real.waitpid},
             {"wait3", g_real.wait3},
             {"wait4", g_real.wait4},
             {"waitid", g_real.waitid}});
}

inline RealWait& real() {
  if (__builtin_expect(g_real.waitid == nullptr, 0)) resolve_all();
  return g_real;
}

/// Calls `wait(status)`, with a place for the status even if the program gives none.
template <typename Wait>
pid_t wait_and_note(int* status, Wait wait) {
  int own_status = 0;
  int* const at = status != nullptr ? status : &own_status;
  const pid_t child = wait(at);
  if (child > 0 && WIFSIGNALED(*at)) note_killed_child(child, WTERMSIG(*at));
  return child;
}

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT pid_t waitpid(pid_t child, int* status, int options) {
  return wait_and_note(status, [&](int* at) { return real().waitpid(child, at, options); });
}

GPUPEAK_EXPORT pid_t wait3(int* status, int options, rusage* usage) {
  return wait_and_note(status, [&](int* at) { return real().wait3(at, options, usage); });
}

GPUPEAK_EXPORT pid_t wait4(pid_t child, int* status, int options, rusage* usage) {
  return wait_and_note(status, [&](int* at) { return real().wait4(child, at, options, usage); });
}

GPUPEAK_EXPORT int waitid(idtype_t kind, id_t id, siginfo_t* info, int options) {
  const int result = real().waitid(kind, id, info, options);
  if (result == 0 && info != nullptr && info->si_pid > 0 &&
      (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED))
    note_killed_child(info->si_pid, info->si_status);
  return result;
}
