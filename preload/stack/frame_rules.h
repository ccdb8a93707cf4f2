// How to get from a frame to its caller, by return address: the row of .eh_frame that holds there,
// where it is of the plain kind that compilers write for nearly all code. HOOK-SAFE, inside a
// HookScope.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// The canonical frame address is `sp` or the frame pointer, plus an offset; the return address
/// lies right below it; the caller's frame pointer is ours, or lies at an offset from it.
struct FrameRule {
  enum Base : uint8_t { kUnsupported = 0, kFromSp, kFromFp, kOutermost };
  static constexpr int32_t kFpUnchanged = INT32_MIN;

  uintptr_t ip = 0;
  int32_t cfa_offset = 0;
  int32_t fp_offset = kFpUnchanged;  ///< from the canonical frame address
  Base base = kUnsupported;
};

/// The rule for the code before return address `ip`. kUnsupported where there is no table
/// (generated code) or the row needs more than the above (signal frames, expressions, other base
/// registers).
FrameRule read_frame_rule(uintptr_t ip);

}  // namespace gpupeak::preload
