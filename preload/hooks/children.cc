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

#include "base/next_functions.h"
#include "hooks/export.h"
#include "hooks/process.h"

namespace gpupeak::preload {
namespace {

int start(const char* path, Variables arguments, Variables variables) {
  return another_program_starts({AT_FDCWD, path, false}, variables, [&](Variables with) {
    return next().execve(path, arguments, with);
  });
}

int search_and_start(const char* name, Variables arguments, Variables variables) {
  return another_program_starts({AT_FDCWD, name, true}, variables, [&](Variables with) {
    return next().execvpe(name, arguments, with);
  });
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
  return another_program_starts({fd, "", false}, variables, [&](Variables with) {
    return next().fexecve(fd, arguments, with);
  });
}

GPUPEAK_EXPORT int execveat(int folder, const char* path, Variables arguments, Variables variables,
                            int flags) {
  if (next().execveat == nullptr) {  // glibc before 2.34 lacks it, so no program calls it there
    errno = ENOSYS;
    return -1;
  }
  return another_program_starts({folder, path, false}, variables, [&](Variables with) {
    return next().execveat(folder, path, arguments, with, flags);
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
  return another_program_starts({AT_FDCWD, path, false}, variables, [&](Variables with) {
    return next().posix_spawn(pid, path, actions, attributes, arguments, with);
  });
}

GPUPEAK_EXPORT int posix_spawnp(pid_t* pid, const char* name,
                                const posix_spawn_file_actions_t* actions,
                                const posix_spawnattr_t* attributes, Variables arguments,
                                Variables variables) {
  return another_program_starts({AT_FDCWD, name, true}, variables, [&](Variables with) {
    return next().posix_spawnp(pid, name, actions, attributes, arguments, with);
  });
}

// The wait family, by which a program learns how its children ended. A child that a signal ended is
// noted, since the log of a killed process cannot say so. `wait` itself is left alone: libraries
// have functions of that name that do something else.

GPUPEAK_EXPORT pid_t waitpid(pid_t child, int* status, int options) {
  return wait_and_note(status, [&](int* at) { return next().waitpid(child, at, options); });
}

GPUPEAK_EXPORT pid_t wait3(int* status, int options, rusage* usage) {
  return wait_and_note(status, [&](int* at) { return next().wait3(at, options, usage); });
}

GPUPEAK_EXPORT pid_t wait4(pid_t child, int* status, int options, rusage* usage) {
  return wait_and_note(status, [&](int* at) { return next().wait4(child, at, options, usage); });
}

GPUPEAK_EXPORT int waitid(idtype_t kind, id_t id, siginfo_t* info, int options) {
  const int result = next().waitid(kind, id, info, options);
  if (result == 0 && info != nullptr && info->si_pid > 0 &&
      (info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED))
    note_killed_child(info->si_pid, info->si_status);
  return result;
}
