// What a thread remembers of its stacks. One in every ThreadSlot. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "gpupeak/log_format.h"
#include "stack/frame_rules.h"
#include "stack/stack.h"
#include "stack/trie.h"

namespace gpupeak::preload {

struct PythonScratch;

/// A frame of the thread's last stack.
struct CachedFrame {
  uintptr_t ip, sp, fp;  ///< registers in this frame, as its callee will leave them
  uint32_t node;         ///< of the stack up to and with this frame
  uint32_t words;        ///< StackCache::words up to this one lead from here to the outermost frame
};

/// A word of the stack by which a frame was left for its caller, and what it held then.
struct StackWord {
  const uintptr_t* at;
  uintptr_t value;
};

/// A frame that was just walked.
struct FreshFrame {
  uintptr_t ip, sp, fp;
  int32_t fp_offset;  ///< where it kept its caller's fp, from the caller's sp; see FrameRule
};

struct StackCache {
  static constexpr uint32_t kEdges = 1024;
  static constexpr uint32_t kRules = 2048;
  struct Edge {
    uintptr_t ip;
    uint32_t parent, node;
  };
  uint64_t trie_generation = 0;
  bool verify = false;              ///< every stack is to be unwound as well: there is no short way
  PythonScratch* python = nullptr;  ///< once it is needed
  uint32_t depth = 0;               ///< of `last`; 0: it is not valid
  CachedFrame last[GPUPEAK_MAX_FRAMES];         ///< outermost first
  StackWord words[1 + 2 * GPUPEAK_MAX_FRAMES];  ///< of `last`, outermost first, from words[1] on
  FreshFrame fresh[GPUPEAK_MAX_FRAMES];         ///< scratch, innermost first
  void* unwound[GPUPEAK_MAX_FRAMES + 16];       ///< scratch: hooks may run on tiny stacks
  Edge edges[kEdges];
  FrameRule rules[kRules];

  /// Whether everything outside last[index] is as it was: each frame led to its caller by words on
  /// the stack (return address, saved frame pointer) that are compared here, inner ones first, so
  /// that a word is read only where the frame that it belongs to is known to stand. If all are the
  /// same, so is what a walk would find. Returns the first word from inside that differs: words[0],
  /// which always does, if no other.
  const StackWord* changed_word(uint32_t index) const {
    const StackWord* word = words + last[index].words;
    while (*word->at == word->value) --word;
    return word;
  }

  /// The node of the thread's last stack if `caller` stands in it again; 0: it has to be walked.
  uint32_t same_stack(const CallerFrame& caller) const {
    if (depth == 0 || verify || trie_generation != gpupeak::preload::trie_generation()) return 0;
    const CachedFrame& frame = last[depth - 1];
    const bool same = frame.ip == caller.ip && frame.sp == caller.sp && frame.fp == caller.fp;
    return same && changed_word(depth - 1) == words ? frame.node : 0;
  }
};

}  // namespace gpupeak::preload
