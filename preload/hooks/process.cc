// The events of a process's life, each as a list of its steps in their order: the process starts,
// forks, becomes or starts another program, and exits. Also the unloading of libraries.
//
//   start   start()                       the first hook that is called (life/process)
//           program_starts()              our constructor; those of hooks find the real functions
//           main_with_phase()             main
//   fork    forks(), forked()             in the parent
//           child_starts()                in the child; its first hook calls start() again
//   exec    another_program_starts()      before each exec and posix_spawn (children.cc)
//   exit    program_ends()                after main or exit
//           end_quickly()                 quick_exit
//           program_ends_at_once()        _exit
#include "hooks/process.h"

#include <alloca.h>
#include <pthread.h>

#include <cerrno>
#include <cstddef>
#include <cstring>

#include "base/elf_lookup.h"
#include "base/hook_scope.h"
#include "base/loader.h"
#include "base/next_functions.h"
#include "base/signals_held.h"
#include "base/syscalls.h"
#include "hooks/adapters.h"
#include "hooks/attach_slots.h"
#include "hooks/cuda_lookup.h"
#include "hooks/export.h"
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

void forks() {
  hold_slots_over_fork();
}

void forked() {
  release_slots_after_fork();
  share_pages();
}

/// The process page is zero already, except on kernels without MADV_WIPEONFORK.
void child_starts() {
  if (is_stopped_for_filter()) return;
  abandon_log_file();
  reset_adapters_in_child();
  reset_slots_in_child();
  if (g_process->decided != 0) memset(static_cast<void*>(g_process), 0, sizeof *g_process);
}

/// For _exit, which may be called from anywhere, so the real function was looked up before.
[[noreturn]] void program_ends_at_once(int code) {
  end_process_at_once();
  if (next()._exit != nullptr) next()._exit(code);
  for (;;) sys::exit_group(code);
}

/// quick_exit calls no destructors, but this. It was registered first, so it is called last.
void end_quickly(void*) {
  end_process();
}

// The signals are held once, not for each lock: a build has thousands of processes.
__attribute__((constructor)) void program_starts() {
  const SignalsHeld held;
  finish_start();
  adapters_look();
  pthread_atfork(&forks, &forked, &child_starts);
  using AtQuickExit = int (*)(void (*)(void*), void*);
  if (void* const at_quick_exit = find_next("__cxa_at_quick_exit"))
    reinterpret_cast<AtQuickExit>(at_quick_exit)(&end_quickly, nullptr);
}

__attribute__((destructor)) void program_ends() {
  end_process();
  put_back_adapters();
}

/// Forgets libraries that are gone, by dlclose or by the loader itself: others may be loaded at
/// their addresses.
void forget_unloaded_libraries() {
  check_driver_is_loaded();
  forget_unloaded_adapters();
  if (!recording()) return;
  HookScope scope;
  if (scope.entered())
    drop_unloaded_modules();
  else
    g_hears_loader.store(false, std::memory_order_relaxed);
}

}  // namespace

int another_program_starts(const StartedProgram& program, Variables variables,
                           FunctionRef<int(Variables)> exec) {
  const int program_errno = errno;
  ChangedVariables changed;
  if (!find_variables_to_change(program, variables, changed)) {
    errno = program_errno;
    return exec(variables);
  }
  auto** list = static_cast<char**>(alloca(changed.entries * sizeof(char*)));
  auto* preload = static_cast<char*>(alloca(changed.preload_bytes));
  change_variables(variables, changed, list, preload);
  errno = program_errno;
  return exec(list);
}

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
void gpupeak_hook_exit(int code) {
  program_ends_at_once(code);
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
