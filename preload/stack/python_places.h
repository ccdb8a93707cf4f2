// Where a thread's Python frames stand among its native ones: each inside of the native frame that
// runs it. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "stack/stack_cache.h"

namespace gpupeak::preload {

// What a walk over the stack, or an unwinder, has found. HOOK-SAFE.

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

/// `node` is a native stack that is known and unchanged. Returns its node with the Python frames
/// that it has now; 0 if their places are not known, so that the stack has to be captured.
uint32_t known_call_site(StackCache& cache, uint32_t node);
/// The node of the captured stack `node` with its Python frames; `node` itself if it has none.
uint32_t with_python_frames(StackCache& cache, const Captured& captured, uint32_t node);

}  // namespace gpupeak::preload
