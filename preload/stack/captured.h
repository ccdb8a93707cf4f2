// What a walk over the stack, or an unwinder, has found. HOOK-SAFE.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// What a walk found: `fresh[0 … count)`, innermost first, on top of `last[0 … kept)`.
struct Walk {
  uint32_t count = 0;
  uint32_t kept = 0;
  bool complete = false;
  const uintptr_t* end = nullptr;  ///< the return address of 0 that ended it; nullptr: a rule did
};

/// The part of StackCache::unwound that is the program's.
struct Unwound {
  int first = 0, count = 0;
  bool is_real = false;  ///< false: there is no unwinder yet, the caller stands for all
};

/// What capture() leaves in the cache.
struct Captured {
  Walk walked;
  Unwound unwound;
  bool is_walked = false;  ///< StackCache::last is the stack, else StackCache::unwound
};

}  // namespace gpupeak::preload
