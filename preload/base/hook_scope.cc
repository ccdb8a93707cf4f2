#include "base/hook_scope.h"

#include <csignal>

#include "base/spinlock.h"
#include "base/syscalls.h"

namespace gpupeak::preload {

constinit thread_local ThreadFlags t_flags __attribute__((tls_model("initial-exec")));

bool was_left_by_longjmp(uintptr_t opened, uintptr_t here) {
  if (here <= opened) return false;  // deeper in the same stack: truly nested
  stack_t alternate{};
  sys::call6(SYS_sigaltstack, 0, reinterpret_cast<long>(&alternate), 0, 0, 0, 0);
  return (alternate.ss_flags & SS_ONSTACK) == 0;
}

void release_left_locks() {
  ThreadFlags& flags = t_flags;
  while (flags.lock_count > 0) {
    const uint32_t last = --flags.lock_count;
    if (last < ThreadFlags::kMostLocks && flags.locks[last]->is_ours()) flags.locks[last]->unlock();
  }
}

void release_locks_left_for(uintptr_t target) {
  if (t_flags.lock_count == 0 || target <= t_flags.in_hook) return;
  stack_t alternate{};
  sys::call6(SYS_sigaltstack, 0, reinterpret_cast<long>(&alternate), 0, 0, 0, 0);
  const bool within_handler =
      (alternate.ss_flags & SS_ONSTACK) != 0 &&
      target - reinterpret_cast<uintptr_t>(alternate.ss_sp) <= alternate.ss_size;
  if (!within_handler) release_left_locks();
}

}  // namespace gpupeak::preload
