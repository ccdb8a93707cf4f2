// x86-64's stack frames: see frame_layout.h.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// Where the return address lies, from the canonical frame address: where a call has pushed it.
struct ReturnPlace {
  static constexpr int32_t offset = -8;
  static constexpr ReturnPlace at(int32_t) { return {}; }
};

/// DWARF's numbers of rbp, rsp and the return address.
constexpr uint32_t kFpColumn = 6, kSpColumn = 7, kReturnColumn = 16;
/// The return address lies on the stack whenever code runs.
constexpr bool kCallStoresReturn = true;
/// For code without a table a frame pointer may be guessed, since what a frame pointer leads to
/// ends the frame.
constexpr bool kFramePointerEndsFrame = true;
/// Whether a word that holds a return address may hold more than that.
constexpr bool kSignsReturns = false;

inline uintptr_t code_address(uintptr_t word) {
  return word;
}

// A rule in few bits.
constexpr unsigned kCodeAddressBits = 47, kCodeAlignmentBits = 0, kFrameFormBits = 0;
/// Puts both offsets into one, and a form of kFrameFormBits; false if they do not fit.
inline bool fold(int32_t fp_offset, ReturnPlace, int32_t& offset, uint64_t& form) {
  offset = fp_offset;
  form = 0;
  return true;
}
inline ReturnPlace unfold(int32_t offset, uint64_t, int32_t& fp_offset) {
  fp_offset = offset;
  return {};
}

}  // namespace gpupeak::preload

/// The registers that a function's caller will have when the function returns; to be used in the
/// function itself.
#define GPUPEAK_CALLER_FRAME ::gpupeak::preload::CallerFrame::of(__builtin_frame_address(0))
