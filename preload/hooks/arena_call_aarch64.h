// What the thunks of arena_thunks_aarch64.S save: the caller's registers. It lies right below the
// caller's frame on the stack.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

struct ArenaCall {
  uint64_t arguments[6];  ///< x0 to x5
  uint64_t x6, x7, x8;
  uint64_t which;                  ///< table * kArenaFunctions + function
  uint64_t result, second_result;  ///< x0 and x1, after the call
  uint8_t vectors[128];
  uint64_t frame_pointer, return_address;  ///< the caller's
};

}  // namespace gpupeak::preload
