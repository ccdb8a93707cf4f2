// An AddressIndex for blocks that come and go between two launches: those of PyTorch's allocator.
// New blocks wait outside of the index until find() or add() is called, or until too many wait.
// Most blocks are found by the caller's guess and freed before that, so they never enter the index.
// The caller holds a lock. HOOK-SAFE.
//
// While a block waits, the index does not know that its addresses are taken. So blocks may wait
// only if they never overlap each other, and only while no block of another kind is there.
#pragma once

#include <algorithm>
#include <cstdint>

#include "track/address_index.h"

namespace gpupeak::preload {

class WaitingIndex {
 public:
  /// Called for a block that waited and that the index then does not take.
  using Refused = void (*)(Use& block);

  void begin(Use* all, Refused refused) {
    all_ = all;
    refused_ = refused;
    index_.begin(all);
  }
  /// Adds a block that may not wait. False: there is no room, or another block overlaps.
  bool add(Use& block) {
    enter_all();
    if (!index_.add(block)) return false;
    block.may_wait = false;
    ++others_;
    return true;
  }
  /// Adds a block that may wait.
  bool add_later(Use& block) {
    if (__builtin_expect(others_ > 0 || count_ == kMost, 0)) {
      enter_all();
      if (!index_.add(block)) return false;
    } else {
      lowest_ = std::min(lowest_, block.begin);
      highest_ = std::max(highest_, block.end);
      numbers_[count_] = static_cast<uint32_t>(&block - all_);
      block.waits_as = ++count_;
    }
    block.may_wait = true;
    return true;
  }
  void remove(Use& block) {
    const auto number = static_cast<uint32_t>(&block - all_);
    const uint32_t place = block.waits_as;  // may be no place, after a jump out of a change
    block.waits_as = 0;
    if (__builtin_expect(place - 1 < count_ && numbers_[place - 1] == number, 1)) {
      const uint32_t last = numbers_[--count_];
      if (last == number) return;
      numbers_[place - 1] = last;
      all_[last].waits_as = place;
      return;
    }
    others_ -= block.may_wait ? 0 : 1;
    index_.remove(block);
  }
  Use* find(uint64_t address) {
    enter_all();
    return index_.find(address);
  }
  /// Whether a block may lie at the address.
  bool may_hold(uint64_t address) const {
    return (count_ > 0 && address >= lowest_ && address < highest_) || index_.may_hold(address);
  }
  /// In a forked child.
  void forget() {
    index_.forget();
    count_ = others_ = 0;
  }

 private:
  static constexpr uint32_t kMost = 512;

  void enter_all() {
    if (count_ > 0) enter_those_that_wait();
  }
  void enter_those_that_wait();

  AddressIndex index_;
  Use* all_ = nullptr;
  Refused refused_ = nullptr;
  uint32_t others_ = 0;                         ///< blocks in the index that may not wait
  uint32_t count_ = 0;                          ///< blocks that wait
  uint64_t lowest_ = UINT64_MAX, highest_ = 0;  ///< the blocks that wait lie between these
  uint32_t numbers_[kMost] = {};                ///< the blocks that wait
};

}  // namespace gpupeak::preload
