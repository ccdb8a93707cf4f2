// x86-64's faults: see fault.h. HOOK-SAFE.
#pragma once

#include <ucontext.h>

#include <cstdint>

namespace gpupeak::preload {

inline uintptr_t code_at_fault(const ucontext_t& context) {
  return static_cast<uintptr_t>(context.uc_mcontext.gregs[REG_RIP]);
}
/// Whether the instruction was about to store. Only for our own code.
inline bool stores_at_fault(const ucontext_t& context) {
  constexpr greg_t kWrite = 2;  // of the page fault's error code
  return (context.uc_mcontext.gregs[REG_ERR] & kWrite) != 0;
}

}  // namespace gpupeak::preload
