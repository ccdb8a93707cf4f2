// What the thunks of bfc_arena_*.S save: the caller's registers, where its frame ends.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

#if defined(__x86_64__)
struct BfcArenaCall {
  uint64_t object, argument, next_argument, rcx, r8, r9;
  uint64_t which;   ///< table * kBfcArenaFunctions + function
  uint64_t result;  ///< rax, before the call and after it
  uint8_t vectors[128];
  uint64_t frame_pointer, return_address;  ///< the caller's
};
#elif defined(__aarch64__)
struct BfcArenaCall {
  uint64_t object, argument, next_argument, x3, x4, x5, x6, x7, x8;
  uint64_t which;                  ///< table * kBfcArenaFunctions + function
  uint64_t result, second_result;  ///< x0 and x1, after the call
  uint8_t vectors[128];
  uint64_t frame_pointer, return_address;  ///< the caller's
};
#endif

}  // namespace gpupeak::preload
