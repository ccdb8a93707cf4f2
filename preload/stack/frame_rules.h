// How to get from a frame to its caller: the row of .eh_frame for the frame's return address, if it
// is of the plain kind that compilers write for nearly all code. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "stack/frame_layout.h"

namespace gpupeak::preload {

/// The canonical frame address is `sp` or the frame pointer, plus an offset. The return address
/// lies at an offset from it (on x86-64 right below it). The caller's frame pointer is the same as
/// ours, or lies at an offset from it.
struct FrameRule {
  enum Base : uint32_t {
    kUnsupported = 0,
    kFromSp,
    kFromFp,
    kGuessed,  ///< as kFromFp, but no unwind rule says so: to be checked before it is followed
    kOutermost,
    /// A function that realigns its stack, as gcc writes it. The word at `cfa_offset` from the
    /// frame pointer is the canonical frame address. The word at the frame pointer is the caller's
    /// frame pointer.
    kRealigned
  };
  static constexpr int32_t kFpUnchanged = 0;  ///< as fp_offset: the caller has the same one

  uintptr_t ip;
  int32_t fp_offset;  ///< from the canonical frame address; not used by kRealigned
  int32_t cfa_offset : 28;
  uint32_t base : 4;  ///< a Base
  [[no_unique_address]] ReturnPlace returns;
};
static_assert(sizeof(FrameRule) == (kCallStoresReturn ? 16 : 24));

/// The rule for the code before return address `ip`. kGuessed if the tables do not have this code
/// (generated code, assembly): we take it to keep a frame pointer, as libunwind does; on aarch64 it
/// is kUnsupported. kUnsupported also if the row needs more than the above (signal frames, other
/// expressions, other base registers), or if the table is not of the usual form.
FrameRule read_frame_rule(uintptr_t ip);

// Unwind rules that some thread has read from a module's table, for all threads: reading one takes
// hundreds of instructions. No lock: an entry is one word. HOOK-SAFE.

/// read_frame_rule(), out of the table if any thread has met `ip` before.
FrameRule frame_rule(uintptr_t ip);
/// Call it when code was loaded or unloaded: the table may be about other code.
void forget_frame_rules();

}  // namespace gpupeak::preload
