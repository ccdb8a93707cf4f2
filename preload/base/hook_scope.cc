#include "base/hook_scope.h"

#include <csignal>

#include "base/syscalls.h"

namespace gpupeak::preload {

constinit thread_local ThreadFlags t_flags __attribute__((tls_model("initial-exec")));

bool was_left_by_longjmp(uintptr_t opened, uintptr_t here) {
  if (here <= opened) return false;  // deeper in the same stack: truly nested
  stack_t alternate{};
  sys::call6(SYS_sigaltstack, 0, reinterpret_cast<long>(&alternate), 0, 0, 0, 0);
  return (alternate.ss_flags & SS_ONSTACK) == 0;
}

}  // namespace gpupeak::preload
