// What the thunks of arena_thunks_x86_64.S save: the caller's registers. It lies right below the
// caller's frame on the stack.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

struct ArenaCall {
  uint64_t arguments[6];  ///< rdi, rsi, rdx, rcx, r8, r9; rdx holds a result after the call
  uint64_t which;         ///< table * kArenaFunctions + function
  uint64_t result;        ///< rax, before the call and after it
  uint8_t vectors[128];
  uint64_t frame_pointer, return_address;  ///< the caller's
};

}  // namespace gpupeak::preload
