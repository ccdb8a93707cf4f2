// What a walk over the stack, or an unwinder, has found. HOOK-SAFE.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// What a walk found: `fresh[0 … count)`, innermost first, on top of `last[0 … kept)`.
struct Walk {
  uint32_t count = 0;
  uint32_t kept = 0;
  bool complete = false;
  /// Where the return address 0 is that ended the walk; nullptr: a rule ended it.
  const uintptr_t* end = nullptr;
};

/// The part of StackCache::unwound that is the program's.
struct Unwound {
  int first = 0, count = 0;
  bool is_real = false;  ///< false: there is no unwinder yet, the caller alone stands for the stack
};

/// What capture() leaves in the cache.
struct Captured {
  Walk walked;
  Unwound unwound;
  bool is_walked = false;  ///< StackCache::last is the stack, else StackCache::unwound
};

}  // namespace gpupeak::preload
