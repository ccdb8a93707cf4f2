// Chains of Python frames that a thread remembers by their places in memory, each with its native
// stack. If all words of a chain are what they were, it is the same stack: then nothing is read,
// numbered or looked up. HOOK-SAFE, inside a HookScope; of one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "stack/python_runtime.h"

namespace gpupeak::preload {

/// One of these:
/// - a frame that runs code, and the evidence for its number;
/// - since 3.12, a frame that marks where a call of the evaluation function begins;
/// - in 3.11, behind the last frame of such a call: the CFrame of the frames further out.
struct PythonLink {
  uintptr_t at;    ///< 0: behind the outermost
  uintptr_t code;  ///< 0: it runs none
  /// If the code object has a version: where its file's name lies. Else a PythonSites::Known.
  uint64_t evidence;
  uint32_t instruction;  ///< from the code object's address on
  uint32_t version;      ///< 0: the code object has none; without code: the frame's owner
};

/// The links are innermost first; one more link, without a frame, ends them.
struct PythonChain {
  const PythonRuntime* python;
  uintptr_t state, cframe;  ///< of the thread; the CFrame leads to the first frame, or is 0
  uint32_t native, node;    ///< of the native stack; of that stack with its Python frames
  static constexpr uint32_t kNext = 4;
  uint32_t next[kNext];  ///< offsets of chains that were found after this one, the last one first
  uint32_t alike;        ///< offset of a chain of the same stack at other places; 0: none
  PythonLink links[1];
};

/// Programs repeat themselves: a stack is looked for among those that came after the last one
/// before. If known stacks are at other places nearly each time, none is looked for during the next
/// kRest.
class PythonChains {
 public:
  /// The chain of this native stack that is expected next, if it `stands`; else nullptr.
  template <typename Stands>
  const PythonChain* expected(uint32_t native, Stands stands) {
    if (rest_ > 0) {
      --rest_;
      return nullptr;
    }
    for (const uint32_t offset : at(last_)->next) {
      const PythonChain* const chain = at(offset);
      if (chain->native != native || !stands(*chain)) continue;
      found(offset);
      credit_ += credit_ < kMostCredit;
      return chain;
    }
    return nullptr;
  }

  bool rests() const { return rest_ > 0; }
  /// Looks among `first` and the chains that are alike; true if one of them stands.
  template <typename Stands>
  bool is_among(uint32_t first, Stands stands) {
    const bool has_any = first != 0;
    for (; first != 0; first = at(first)->alike) {
      if (!stands(*at(first))) continue;
      found(first);
      return true;
    }
    if (has_any && (credit_ -= kCostOfMiss) < 0) {
      credit_ = kFirstCredit;
      rest_ = kRest;
    }
    return false;
  }

  /// Adds a chain, which `describe` fills. Returns its offset; 0: `describe` could not, or there is
  /// no room.
  template <typename Describe>
  uint32_t learn(uint32_t native, uint32_t node, uint32_t alike, Describe describe) {
    const uint32_t offset = used_;
    PythonChain* const chain = at(offset);
    const size_t room = sizeof bytes_ - offset * kUnit;
    if (room < sizeof(PythonChain)) return refuse();
    used_ = static_cast<uint32_t>(sizeof bytes_ / kUnit);  // a signal handler takes none of it
    in_order();
    const size_t links = describe(*chain, (room - sizeof(PythonChain)) / sizeof(PythonLink));
    if (links == 0) {
      used_ = offset;
      return room < sizeof bytes_ / 16 ? refuse() : 0;
    }
    chain->native = native;
    chain->node = node;
    for (uint32_t& next : chain->next) next = 0;
    chain->alike = alike;
    in_order();
    const size_t bytes = offsetof(PythonChain, links) + (links + 1) * sizeof(PythonLink);
    used_ = static_cast<uint32_t>(offset + (bytes + kUnit - 1) / kUnit);
    ++count_;
    found(offset);
    return offset;
  }

  /// More stacks were turned away than are known.
  bool is_worn() const { return refused_ > count_; }
  void forget() {
    last_ = 0;
    for (uint32_t& next : at(0)->next) next = 0;
    in_order();
    count_ = refused_ = rest_ = 0;
    credit_ = kFirstCredit;
    used_ = kFirst;
  }

 private:
  static constexpr uint32_t kUnit = 64, kRest = 1024;
  static constexpr int32_t kMostCredit = 256, kFirstCredit = 32, kCostOfMiss = 4;
  static constexpr uint32_t kFirst = (sizeof(PythonChain) + kUnit - 1) / kUnit;

  /// The chain at offset 0 is of no stack.
  PythonChain* at(uint32_t offset) {
    return reinterpret_cast<PythonChain*>(bytes_ + size_t{offset} * kUnit);
  }
  void found(uint32_t offset) {
    uint32_t last = offset;
    for (uint32_t& next : at(last_)->next) {
      const uint32_t before = next;
      next = last;
      if (before == offset) break;
      last = before;
    }
    last_ = offset;
  }
  uint32_t refuse() {
    ++refused_;
    return 0;
  }

  uint32_t last_;
  uint32_t used_, count_, refused_;
  int32_t credit_;
  uint32_t rest_;
  alignas(kUnit) uint8_t bytes_[2 << 20];
};

}  // namespace gpupeak::preload
