#include "base/hook_scope.h"

#include <csignal>

#include "base/lock.h"
#include "base/process_state.h"
#include "base/syscalls.h"

namespace gpupeak::preload {

alignas(4096) constinit ProcessPage g_first_page{};
GPUPEAK_HOT_DATA constinit ProcessPage* g_process = &g_first_page;
constinit std::atomic<bool> g_libraries_start{true};
constinit bool g_children_know = false;

constinit thread_local ThreadFlags t_flags __attribute__((tls_model("initial-exec")));

bool was_left_by_longjmp(uintptr_t opened, uintptr_t here) {
  if (here <= opened) return false;  // deeper in the same stack: truly nested
  stack_t alternate{};
  sys::sigaltstack(&alternate);
  return (alternate.ss_flags & SS_ONSTACK) == 0;
}

void release_left_locks() {
  ThreadFlags& flags = t_flags;
  flags.in_library = false;
  flags.signals_held = 0;
  while (flags.lock_count > 0) {
    const uint32_t last = --flags.lock_count;
    if (last < ThreadFlags::kMostLocks && flags.locks[last]->is_ours()) flags.locks[last]->unlock();
  }
}

bool is_short_of_stack() {
  constexpr uintptr_t kPlenty = 8 << 10;  // twice what libunwind takes
  stack_t alternate{};
  sys::sigaltstack(&alternate);
  return (alternate.ss_flags & SS_ONSTACK) != 0 &&
         arch::stack_pointer() - reinterpret_cast<uintptr_t>(alternate.ss_sp) < kPlenty;
}

bool is_within_handler(uintptr_t target) {
  stack_t alternate{};
  sys::sigaltstack(&alternate);
  return (alternate.ss_flags & SS_ONSTACK) != 0 &&
         target - reinterpret_cast<uintptr_t>(alternate.ss_sp) <= alternate.ss_size;
}

void leave_scopes_for(uintptr_t target) {
  ThreadFlags& flags = t_flags;
  const auto leaves = [target](uintptr_t opened) { return opened != 0 && target > opened; };
  if (!leaves(flags.in_hook) && !leaves(flags.in_allocator) && !leaves(flags.in_driver)) return;
  if (is_within_handler(target)) return;
  if (leaves(flags.in_hook)) {
    release_left_locks();
    flags.in_hook = 0;
  }
  if (leaves(flags.in_allocator)) flags.in_allocator = 0;
  if (leaves(flags.in_driver)) flags.in_driver = 0;
}

}  // namespace gpupeak::preload
