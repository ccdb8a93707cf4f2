// The exec family and posix_spawn. If the environment of the started program lacks the variables
// that it needs to be recorded, they are added (life/kept_preload). Called in vfork children and
// signal handlers, too. The caller's arguments and environment are left as they are.
#include <alloca.h>
#include <fcntl.h>
#include <spawn.h>
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
