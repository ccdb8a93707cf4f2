// The events of a process's life, each as a list of its steps in their order: the process starts,
// forks, becomes or starts another program, and exits. Also the unloading of libraries.
//
//   start   start()                       the first hook that is called (life/process)
//           program_starts()              our constructor; those of hooks find the real functions
//           main_with_phase()             main
//   fork    hold_slots_over_fork()        in the parent, before it (hooks/attach_slots)
//           forked()                      in the parent
//           child_starts()                in the child; its first hook calls start() again
//   exec    another_program_starts()      before each exec and posix_spawn
//   exit    program_ends()                after main or exit
//           end_quickly()                 quick_exit
//           gpupeak_hook_exit()           _exit
#include "hooks/process.h"

#include <alloca.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/kept_errno.h"
#include "base/loader.h"
#include "base/next_functions.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "hooks/adapters.h"
#include "hooks/attach_slots.h"
#include "hooks/cuda_lookup.h"
#include "hooks/export.h"
#include "life/children.h"
#include "life/process.h"
#include "log/log_file.h"
#include "stack/module_map.h"
#include "thread/resident.h"
#include "track/phases.h"

namespace gpupeak::preload {
namespace {

using Main = int (*)(int, char**, char**);
using StartMain = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);

constinit Main g_main = nullptr;

/// The compiler makes its last call a jump, so that the program's stack shows nothing of us.
int main_with_phase(int argc, char** argv, char** environment) {
  enter_process_phase("main");
  return g_main(argc, argv, environment);
}

void forked() {
  release_slots_after_fork();
  share_pages();
}

/// The process page is zero already, except on kernels without MADV_WIPEONFORK.
void child_starts() {
  if (is_stopped_for_filter()) return;
  abandon_log_file();
  call_adapters(&Adapter::reset_in_child);
  reset_slots_in_child();
  if (g_process->decided != 0) memset(static_cast<void*>(g_process), 0, sizeof *g_process);
}

/// quick_exit calls no destructors, but this. It was registered first, so it is called last.
void end_quickly(void*) {
  end_process();
}

// The signals are held once, not for each lock: a build has thousands of processes.
__attribute__((constructor)) void program_starts() {
  const SignalsHeld held;
  finish_start();
  call_adapters(&Adapter::look, nullptr);
  pthread_atfork(&hold_slots_over_fork, &forked, &child_starts);
  using AtQuickExit = int (*)(void (*)(void*), void*);
  if (void* const at_quick_exit = find_next("__cxa_at_quick_exit"))
    reinterpret_cast<AtQuickExit>(at_quick_exit)(&end_quickly, nullptr);
}

__attribute__((destructor)) void program_ends() {
  end_process();
  call_adapters(&Adapter::put_back);
}

/// Forgets libraries that are gone, by dlclose or by the loader itself: others may be loaded at
/// their addresses.
void forget_unloaded_libraries() {
  check_driver_is_loaded();
  call_adapters(&Adapter::forget_unloaded);
  if (!recording()) return;
  HookScope scope;
  if (scope.entered())
    drop_unloaded_modules();
  else
    g_hears_loader.store(false, std::memory_order_relaxed);
}

/// Calls `exec`, the real exec or posix_spawn with the program's other arguments, with `variables`
/// and with those variables added that the other program needs to be recorded. Safe in vfork
/// children and signal handlers: allocates nothing, and leaves the caller's list as it is.
int another_program_starts(const StartedProgram& program, Variables variables,
                           FunctionRef<int(Variables)> exec) {
  KeptErrno program_errno;
  ChangedVariables changed;
  if (!find_variables_to_change(program, variables, changed))
    return program_errno.call(exec, variables);
  auto** list = static_cast<char**>(alloca(changed.entries * sizeof(char*)));
  auto* preload = static_cast<char*>(alloca(changed.preload_bytes));
  change_variables(variables, changed, list, preload);
  return program_errno.call(exec, list);
}

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

void loader_has_freed() {
  g_hears_loader.store(true, std::memory_order_relaxed);
  // The loader also frees memory at the end of threads. Then it is not worth its lock to ask it.
  if (loader_is_removing() && modules_were_unloaded()) forget_unloaded_libraries();
}

}  // namespace gpupeak::preload

using namespace gpupeak::preload;

GPUPEAK_EXPORT int __libc_start_main(Main main, int argc, char** argv, void (*init)(),
                                     void (*fini)(), void (*rtld_fini)(), void* stack_end) {
  const auto next = reinterpret_cast<StartMain>(find_next("__libc_start_main"));
  g_main = main;
  g_libraries_start = false;
  return next(&main_with_phase, argc, argv, init, fini, rtld_fini, stack_end);
}

GPUPEAK_EXPORT int dlclose(void* library) {
  // With libdl loaded later than we (before glibc 2.34).
  auto real = next().dlclose;
  if (real == nullptr) real = reinterpret_cast<decltype(real)>(find_next("dlclose"));
  if (real == nullptr) return -1;
  const int result = real(library);
  forget_unloaded_libraries();
  return result;
}

GPUPEAK_EXPORT __attribute__((noreturn)) void gpupeak_hook_exit(int) asm("_exit");
/// It may be called from anywhere, so the real function was looked up before.
void gpupeak_hook_exit(int code) {
  end_process_at_once();
  if (next()._exit != nullptr) next()._exit(code);
  for (;;) sys::exit_group(code);
}
GPUPEAK_EXPORT __attribute__((noreturn)) void gpupeak_hook_Exit(int) asm("_Exit")
    __attribute__((alias("_exit")));

// A program with a sanitizer's runtime is left alone (life/process.cc), and must start.

/// AddressSanitizer's shared runtime refuses to start behind a preloaded library, whose functions
/// may be found before its own. Our hooks pass all calls on. A program with options of its own
/// defines this function itself.
GPUPEAK_EXPORT const char* __asan_default_options() {
  return "verify_asan_link_order=0";
}

// The exec family and posix_spawn. If the environment of the started program lacks the variables
// that it needs to be recorded, they are added (life/children). Called in vfork children and
// signal handlers, too. The caller's arguments and environment are left as they are.

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

#define GPUPEAK_SPAWN(spawn, is_searched)                                              \
  GPUPEAK_EXPORT int spawn(                                                            \
      pid_t* pid, const char* program, const posix_spawn_file_actions_t* actions,      \
      const posix_spawnattr_t* attributes, Variables arguments, Variables variables) { \
    return another_program_starts(                                                     \
        {AT_FDCWD, program, is_searched}, variables, [&](Variables with) {             \
          return next().spawn(pid, program, actions, attributes, arguments, with);     \
        });                                                                            \
  }
GPUPEAK_SPAWN(posix_spawn, false)
GPUPEAK_SPAWN(posix_spawnp, true)

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
