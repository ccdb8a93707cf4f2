// What a thread remembers of its stacks. One in every ThreadSlot; stack.cc's own.
#pragma once

#include <cstdint>

#include "gpupeak/log_format.h"
#include "stack/frame_rules.h"

namespace gpupeak::preload {

struct PythonScratch;

/// A frame of the thread's last stack, and what it was read from.
struct CachedFrame {
  uintptr_t ip, sp, fp;  ///< registers in this frame, as its callee will leave them
  uint32_t node;         ///< of the stack up to and with this frame
  int32_t
      fp_offset;  ///< where this frame kept its caller's fp, from the caller's sp; see FrameRule
};

struct StackCache {
  static constexpr uint32_t kEdges = 1024;
  static constexpr uint32_t kRules = 2048;
  struct Edge {
    uintptr_t ip;
    uint32_t parent, node;
  };
  uint64_t trie_generation = 0;
  PythonScratch* python = nullptr;         ///< once it is needed
  uint32_t depth = 0;                      ///< of `last`; 0: it is not valid
  CachedFrame last[GPUPEAK_MAX_FRAMES];    ///< outermost first
  CachedFrame fresh[GPUPEAK_MAX_FRAMES];   ///< scratch, innermost first
  void* unwound[GPUPEAK_MAX_FRAMES + 16];  ///< scratch: hooks may run on tiny stacks
  Edge edges[kEdges];
  FrameRule rules[kRules];
};

}  // namespace gpupeak::preload
