// Where an architecture keeps what leads from a frame to its caller. Both declare the same things.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

#if defined(__x86_64__)

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

/// The registers that a function's caller will have when the function returns; to be used in the
/// function itself.
#define GPUPEAK_CALLER ::gpupeak::preload::CallerFrame::of(__builtin_frame_address(0))

#else  // aarch64

// A call leaves the return address in x30. A function that calls another one stores x30, mostly
// beside x29, and may sign it first: with pointer authentication, the upper bits of the stored word
// are a signature.

/// Where the return address lies, from the canonical frame address.
struct ReturnPlace {
  int32_t offset = 0;
  static constexpr ReturnPlace at(int32_t offset) { return {offset}; }
};

/// DWARF's numbers of x29, sp and x30.
constexpr uint32_t kFpColumn = 29, kSpColumn = 31, kReturnColumn = 30;
constexpr bool kCallStoresReturn = false;
/// x29 leads to the caller's x29 and the return address, but not to the frame's end. So for code
/// without a table the caller's stack pointer cannot be known.
constexpr bool kFramePointerEndsFrame = false;
constexpr bool kSignsReturns = true;

/// Removes the signature. Older processors pass over this instruction.
inline uintptr_t code_address(uintptr_t word) {
  register uintptr_t x30 asm("x30") = word;
  asm("hint #7" : "+r"(x30));  // xpaclri
  return x30;
}

// A rule in few bits: where the return address lies, and whether x29 lies right below it.
constexpr unsigned kCodeAddressBits = 48, kCodeAlignmentBits = 2, kFrameFormBits = 1;
inline bool fold(int32_t fp_offset, ReturnPlace returns, int32_t& offset, uint64_t& form) {
  offset = returns.offset;
  form = fp_offset != 0;
  return form == 0 || fp_offset == returns.offset - 8;
}
inline ReturnPlace unfold(int32_t offset, uint64_t form, int32_t& fp_offset) {
  fp_offset = form != 0 ? offset - 8 : 0;
  return {offset};
}

/// The registers that a function's caller will have when the function returns; to be used in the
/// function itself. x29 points to the caller's x29, which lies somewhere within the function's
/// frame.
#define GPUPEAK_CALLER                                             \
  ::gpupeak::preload::CallerFrame {                                \
    reinterpret_cast<uintptr_t>(__builtin_return_address(0)),      \
        reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()),        \
        *static_cast<const uintptr_t*>(__builtin_frame_address(0)) \
  }

#endif

}  // namespace gpupeak::preload
