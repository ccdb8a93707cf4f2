// What a thread remembers of its stacks, so that most need no walk. One in every ThreadSlot.
// HOOK-SAFE, inside a HookScope.
//
// Say main calls parse calls malloc. The walk finds three things and keeps them:
//
//   last     (outermost first)      words    (what led from each frame to its caller)
//   [0] main   node 1, words 1      [1] return address 0 above main: the end
//   [1] parse  node 2, words 2      [2] parse's return address: "into main"
//
// First, parse calls malloc again from the same place. known_stack() finds {ip, sp} in parse among
// the whole stacks that are remembered (trace_tree.h), sees that words [2] and [1] hold what they
// held, and answers node 2: two loads, two comparisons, no unwind rule.
//
// Then parse calls read, which calls malloc. No stack has read's sp. The walk applies read's rule,
// comes to {ip, sp} in parse and finds that last[1] stands there with its words unchanged: one
// frame is walked and looked up in the trie, main is not looked at.
//
// Then parse has returned, and main calls write, which calls malloc. last[1] has parse's ip, so it
// is not this frame; write's rule leads to main, where last[0] stands unchanged.
//
// A word that has changed invalidates the frames inside of it alone; code that was unloaded, all
// (trie_generation).
#pragma once

#include <atomic>
#include <cstdint>

#include "gpupeak/log_format.h"
#include "stack/frame_rules.h"
#include "stack/module_map.h"
#include "stack/stack.h"
#include "stack/trace_tree.h"
#include "stack/trie.h"
#include "stack/unwinder.h"

namespace gpupeak::preload {

// How many bytes each native stack of a thread has asked for in small blocks: this tells which
// stacks are worth their Python lines. An import has many stacks that ask for little each; what
// makes a peak asks in the same place again and again. HOOK-SAFE; of one thread.
class AskedFor {
 public:
  /// Adds `bytes` to what the stack `node` has asked for. True if that is `enough` by now. If two
  /// stacks share a place, the one that asks for more stays; the other counts as new each time.
  bool comes_to(uint32_t node, uint64_t bytes, uint64_t enough) {
    Place& place = places_[(node * 0x9e3779b1u) >> (32 - kPlacesLog)];
    if (place.node != node) {
      if (place.bytes > bytes) {
        place.bytes -= bytes;
        return false;
      }
      place = {node, 0};
    }
    if (place.bytes < enough) place.bytes += bytes;
    return place.bytes >= enough;
  }

 private:
  static constexpr uint32_t kPlacesLog = 10;
  struct Place {
    uint32_t node;
    uint64_t bytes;
  };
  Place places_[1 << kPlacesLog];
};

struct PythonScratch;

/// A frame of the thread's last stack. The frame pointer is part of it only if this frame or one
/// further out is found by it: otherwise the register holds whatever the compiler put there.
struct CachedFrame {
  uintptr_t ip, sp;  ///< registers in this frame, as its callee will leave them
  uintptr_t fp;
  uint32_t node;        ///< of the stack up to and with this frame
  uint32_t words : 29;  ///< StackCache::words up to this one lead from here to the outermost frame
  uint32_t needs_fp : 1;
  uint32_t uses_fp : 1;    ///< its caller was found by fp
  uint32_t realigned : 1;  ///< its last word is where its caller's frame begins

  bool is_at(uintptr_t other_ip, uintptr_t other_sp, uintptr_t other_fp) const {
    return sp == other_sp && ip == other_ip && (fp == other_fp || needs_fp == 0);
  }
};

/// A frame that was just walked.
struct FreshFrame {
  uintptr_t ip, sp, fp;
  int32_t fp_offset;  ///< where it kept its caller's fp, from the caller's sp; see FrameRule
  bool uses_fp;       ///< its caller was found by fp
  int32_t cfa_word;   ///< from fp, what holds the caller's sp; 0: it was computed
  [[no_unique_address]] ReturnPlace returns;
};

struct StackCache {
  static constexpr uint32_t kEdges = 2048;
  static constexpr uint32_t kRules = 1024;
  static constexpr uint32_t kSeen = 1 << 19;
  struct Edge {
    uintptr_t ip;
    uint32_t parent, node;
  };
  uint64_t trie_generation = 0;
  bool verify = false;   ///< every stack is to be unwound as well
  bool guessed = false;  ///< a frame was found by FrameRule::kGuessed
  TraceTree traces;
  OwnStack own;                                 ///< the thread's
  ReadableStack readable;                       ///< for what lies outside of a guessed frame
  PythonScratch* python = nullptr;              ///< once it is needed
  AskedFor asked_for;                           ///< in Python programs
  uint32_t depth = 0;                           ///< of `last`; 0: it is not valid
  CachedFrame last[GPUPEAK_MAX_FRAMES];         ///< outermost first
  uint64_t paths[GPUPEAK_MAX_FRAMES];           ///< of `last`: path_hash() up to and with each
  StackWord words[1 + 3 * GPUPEAK_MAX_FRAMES];  ///< of `last`, outermost first, from words[1] on
  FreshFrame fresh[GPUPEAK_MAX_FRAMES];         ///< scratch, innermost first
  void* unwound[GPUPEAK_MAX_FRAMES + 16];       ///< scratch: hooks may run on tiny stacks
  Edge edges[kEdges];
  FrameRule rules[kRules];
  StackSteps steps;         ///< scratch
  uint8_t seen[kSeen / 8];  ///< a bit for each node that was met, by its last bits
  UnwindScratch unwind_scratch;

  /// For a new thread in the slot of one that has ended: what a guess led to may be gone with the
  /// stack that it lay on.
  void begin_thread() {
    if (guessed) trie_generation = UINT64_MAX;
    own.forget();
    traces.begin_thread();
  }

  /// Compares the words on the stack (return address, saved frame pointer) by which each frame led
  /// to its caller. Inner words come first, so that a word is read only if its frame is known to
  /// stand. If all are the same, so is what a walk would find. Returns the innermost word that
  /// differs; words[0], the last one to be compared, always does.
  static const StackWord* changed_word(const StackWord* word) {
    while (*word->at == word->value) --word;
    return word;
  }

  /// The stack's node if the whole stack is remembered and is unchanged; else 0: it has to be
  /// walked.
  uint32_t known_stack(const CallerFrame& caller) { return is_current() ? traces.find(caller) : 0; }
  /// The same, but always 0 if every stack is to be unwound as well.
  uint32_t trusted_stack(const CallerFrame& caller) { return verify ? 0 : known_stack(caller); }

  /// trusted_stack() in two halves: the first finds the stack that is expected after the last …
  __attribute__((always_inline)) uint32_t expected_stack(const CallerFrame& caller) {
    return __builtin_expect(is_current() && !verify, 1) ? traces.find_expected(caller) : 0;
  }
  /// … and the second any other one. Do not call the second if `verify`.
  uint32_t unexpected_stack(const CallerFrame& caller) {
    return is_current() ? traces.find_otherwise(caller) : 0;
  }

 private:
  /// Whether no code was unloaded since the stacks were remembered.
  bool is_current() const { return trie_generation == gpupeak::preload::trie_generation(); }
};

/// As capture_stack() if the whole stack is remembered, else 0. Always 0 if the loader's frees do
/// not reach us: only a walk asks the loader whether code has gone.
inline __attribute__((always_inline)) uint32_t standing_stack(StackCache& cache,
                                                              const CallerFrame& caller) {
  const bool hears = g_hears_loader.load(std::memory_order_relaxed);
  return __builtin_expect(hears, 1) ? cache.trusted_stack(caller) : 0;
}

}  // namespace gpupeak::preload
