// How to get from a frame to its caller, by return address: the row of .eh_frame that holds there,
// where it is of the plain kind that compilers write for nearly all code. HOOK-SAFE, inside a
// HookScope.
#pragma once

#include <cstdint>

#include "stack/frame_layout.h"

namespace gpupeak::preload {

/// The canonical frame address is `sp` or the frame pointer, plus an offset; the return address
/// lies at an offset from it (on x86-64 right below it); the caller's frame pointer is ours, or
/// lies at an offset from it.
struct FrameRule {
  enum Base : uint32_t {
    kUnsupported = 0,
    kFromSp,
    kFromFp,
    kGuessed,  ///< as kFromFp, but no unwind rule says so: to be checked before it is followed
    kOutermost,
    /// A function that realigns its stack, as gcc writes it: the canonical frame address is what
    /// the word `cfa_offset` from the frame pointer holds, and the frame pointer's own word the
    /// caller's frame pointer.
    kRealigned
  };
  static constexpr int32_t kFpUnchanged = 0;  ///< as an offset: the caller's own frame

  uintptr_t ip;
  int32_t fp_offset;  ///< from the canonical frame address; of kRealigned nothing
  int32_t cfa_offset : 28;
  uint32_t base : 4;  ///< a Base
  [[no_unique_address]] ReturnPlace returns;
};
static_assert(sizeof(FrameRule) == (kCallStoresReturn ? 16 : 24));

/// The rule for the code before return address `ip`. kGuessed where the tables know nothing of it
/// (generated code, assembly): it is taken to keep a frame pointer, as libunwind takes it.
/// (kUnsupported on aarch64.) kUnsupported where the row needs more than the above (signal frames,
/// other expressions, other base registers), or the table is not of the usual form.
FrameRule read_frame_rule(uintptr_t ip);

}  // namespace gpupeak::preload
