// The exec family and posix_spawn. If the environment of the started program lacks the variables
// that it needs to be recorded, they are added (life/children). Called in vfork children and
// signal handlers, too. The caller's arguments and environment are left as they are.
#include "life/children.h"

#include <alloca.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>

#include "base/elf_lookup.h"
#include "hooks/export.h"
#include "hooks/process.h"

namespace gpupeak::preload {
namespace {

struct RealExec {
  int (*execve)(const char*, Variables, Variables);
  int (*execvpe)(const char*, Variables, Variables);
  int (*fexecve)(int, Variables, Variables);
  int (*execveat)(int, const char*, Variables, Variables, int);
  int (*spawn)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
               Variables, Variables);
  int (*spawnp)(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
                Variables, Variables);
};
constinit RealExec g_real{};

/// Called before main, since in a vfork child or a signal handler the loader's lock may be held.
__attribute__((constructor)) void resolve_all() {
  if (g_real.execve != nullptr) return;
  find_next({{"execvpe", g_real.execvpe},
             {"fexecve", g_real.fexecve},
             {"execveat", g_real.execveat},
             {"posix_spawn", g_real.spawn},
             {"posix_spawnp", g_real.spawnp},
             {"execve", g_real.execve}});
}

inline RealExec& real() {
  if (__builtin_expect(g_real.execve == nullptr, 0)) resolve_all();
  return g_real;
}

template <typename Real>
int start_with_us(const StartedProgram& program, Variables variables, const Real& real_call) {
  struct Call : Exec {
    const Real& real_call;
  };
  const Call call{{[](const Exec& self, Variables with) {
                    return static_cast<const Call&>(self).real_call(with);
                  }},
                  real_call};
  return another_program_starts(program, variables, call);
}

int start(const char* path, Variables arguments, Variables variables) {
  return start_with_us({AT_FDCWD, path, false}, variables,
                       [&](Variables with) { return real().execve(path, arguments, with); });
}

int search_and_start(const char* name, Variables arguments, Variables variables) {
  return start_with_us({AT_FDCWD, name, true}, variables,
                       [&](Variables with) { return real().execvpe(name, arguments, with); });
}

}  // namespace
}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT int execve(const char* path, Variables arguments, Variables variables) {
  return start(path, arguments, variables);
}

GPUPEAK_EXPORT int execv(const char* path, Variables arguments) {
  return start(path, arguments, environ);
}

GPUPEAK_EXPORT int execvp(const char* name, Variables arguments) {
  return search_and_start(name, arguments, environ);
}

GPUPEAK_EXPORT int execvpe(const char* name, Variables arguments, Variables variables) {
  return search_and_start(name, arguments, variables);
}

GPUPEAK_EXPORT int fexecve(int fd, Variables arguments, Variables variables) {
  return start_with_us({fd, "", false}, variables,
                       [&](Variables with) { return real().fexecve(fd, arguments, with); });
}

GPUPEAK_EXPORT int execveat(int folder, const char* path, Variables arguments, Variables variables,
                            int flags) {
  if (real().execveat == nullptr) {  // glibc before 2.34 lacks it, so no program calls it there
    errno = ENOSYS;
    return -1;
  }
  return start_with_us({folder, path, false}, variables, [&](Variables with) {
    return real().execveat(folder, path, arguments, with, flags);
  });
}

// Makes a list on the stack of the arguments that follow, as the C library does: first it counts
// them.
#define GPUPEAK_LISTED_ARGUMENTS(list, first, rest)                             \
  va_list rest;                                                                 \
  va_start(rest, first);                                                        \
  size_t count = 1;                                                             \
  while (va_arg(rest, const char*) != nullptr) ++count;                         \
  va_end(rest);                                                                 \
  auto** const list = static_cast<char**>(alloca((count + 1) * sizeof(char*))); \
  list[0] = const_cast<char*>(first);                                           \
  va_start(rest, first);                                                        \
  for (size_t i = 1; i <= count; ++i) list[i] = va_arg(rest, char*)

GPUPEAK_EXPORT int execl(const char* path, const char* first, ...) {
  GPUPEAK_LISTED_ARGUMENTS(arguments, first, rest);
  va_end(rest);
  return start(path, arguments, environ);
}

GPUPEAK_EXPORT int execlp(const char* name, const char* first, ...) {
  GPUPEAK_LISTED_ARGUMENTS(arguments, first, rest);
  va_end(rest);
  return search_and_start(name, arguments, environ);
}

GPUPEAK_EXPORT int execle(const char* path, const char* first, ...) {
  GPUPEAK_LISTED_ARGUMENTS(arguments, first, rest);
  Variables variables = va_arg(rest, Variables);
  va_end(rest);
  return start(path, arguments, variables);
}

GPUPEAK_EXPORT int posix_spawn(pid_t* pid, const char* path,
                               const posix_spawn_file_actions_t* actions,
                               const posix_spawnattr_t* attributes, Variables arguments,
                               Variables variables) {
  return start_with_us({AT_FDCWD, path, false}, variables, [&](Variables with) {
    return real().spawn(pid, path, actions, attributes, arguments, with);
  });
}

GPUPEAK_EXPORT int posix_spawnp(pid_t* pid, const char* name,
                                const posix_spawn_file_actions_t* actions,
                                const posix_spawnattr_t* attributes, Variables arguments,
                                Variables variables) {
  return start_with_us({AT_FDCWD, name, true}, variables, [&](Variables with) {
    return real().spawnp(pid, name, actions, attributes, arguments, with);
  });
}

namespace gpupeak::preload {

// The wait family, by which a program learns how its children ended. A child that a signal ended is
// noted, since the log of a killed process cannot say so. `wait` itself is left alone: libraries
// have functions of that name that do something else.

namespace {
struct RealWait {
  pid_t (*waitpid)(pid_t, int*, int);
  pid_t (*wait3)(int*, int, rusage*);
  pid_t (*wait4)(pid_t, int*, int, rusage*);
  int (*waitid)(idtype_t, id_t, siginfo_t*, int);
};
constinit RealWait g_real_wait{};

/// Called before main, since in a signal handler the loader's lock may be held.
__attribute__((constructor)) void resolve_wait() {
  if (g_real_wait.waitid != nullptr) return;
  find_next({{"waitpid", g_real_wait.waitpid},
             {"wait3", g_real_wait.wait3},
             {"wait4", g_real_wait.wait4},
             {"waitid", g_real_wait.waitid}});
}

inline RealWait& real_wait() {
  if (__builtin_expect(g_real_wait.waitid == nullptr, 0)) resolve_wait();
  return g_real_wait;
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

GPUPEAK_EXPORT pid_t waitpid(pid_t child, int* status, int options) {
  return wait_and_note(status, [&](int* at) { return real_wait().waitpid(child, at, options); });
}

GPUPEAK_EXPORT pid_t wait3(int* status, int options, rusage* usage) {
  return wait_and_note(status, [&](int* at) { return real_wait().wait3(at, options, usage); });
}

GPUPEAK_EXPORT pid_t wait4(pid_t child, int* status, int options, rusage* usage) {
  return wait_and_note(status,
                       [&](int* at) { return real_wait().wait4(child, at, options, usage); });
}

GPUPEAK_EXPORT int waitid(idtype_t kind, id_t id, siginfo_t* info, int options) {
  const int result = real_wait().waitid(kind, id, info, options);
  if (result == 0 && info != nullptr && info->si_pid > 0 &&
      (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED))
    note_killed_child(info->si_pid, info->si_status);
  return result;
}
