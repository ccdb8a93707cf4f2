// Chains of Python frames that a thread knows as they lie in memory, each with the native stack
// that it stood in. Where all words of a chain are what they were, it is the same stack: nothing is
// read, numbered or looked up. HOOK-SAFE, inside a HookScope; of one thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/in_order.h"
#include "stack/python_runtime.h"

namespace gpupeak::preload {

/// A frame that runs code, and what the frame's number rests on; or one that marks where a call of
/// the evaluation begins, since 3.12; or, behind the last frame of such a call, the CFrame of those
/// further out: 3.11.
struct PythonLink {
  uintptr_t at;    ///< 0: behind the outermost
  uintptr_t code;  ///< 0: it runs none
  /// Of a code object that has a version, where its file's name lies; of others a
  /// PythonSites::Known.
  uint64_t evidence;
  uint32_t instruction;  ///< from the code object's address on
  uint32_t version;      ///< 0: the code object has none; where there is no code the frame's owner
};

/// Innermost first, and one more link that has no frame.
struct PythonChain {
  const PythonRuntime* python;
  uintptr_t state, cframe;  ///< the thread's, and what leads from there to the first frame, or 0
  uint32_t native, node;    ///< of the native stack, and of that with the Python frames placed
  static constexpr uint32_t kNext = 4;
  uint32_t next[kNext];  ///< in PythonChains: those found after this one, the last one first
  uint32_t alike;        ///< another one that is the same stack, at other places; 0: none
  PythonLink links[1];
};

/// Programs repeat themselves: a stack is looked for among those that were found after the last one
/// before. Where known stacks lie elsewhere nearly each time, nothing is looked for during the next
/// kRest.
class PythonChains {
 public:
  /// The chain of this native stack that comes next, if `stands` says so of it; else nullptr.
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
  /// The same among `first` and those that are alike; true if it was there.
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

  /// Adds one, which `describe` fills; 0: it could not, or there is no room.
  template <typename Describe>
  uint32_t learn(uint32_t native, uint32_t node, uint32_t alike, Describe describe) {
    const uint32_t offset = used_;
    PythonChain* const chain = at(offset);
    const size_t room = sizeof bytes_ - offset * kUnit;
    if (room < sizeof(PythonChain)) return refuse();
    used_ = static_cast<uint32_t>(sizeof bytes_ / kUnit);  // who interrupts takes none of it
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

  /// At 0 lies one that is of no stack.
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
