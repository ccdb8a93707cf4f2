// What a thread has found out before, by hash: open addressing in place, in memory that begins as
// zeros. Nothing is pushed out by a neighbour: where three quarters are used all is forgotten, and
// what is still needed is soon found anew. HOOK-SAFE; of one thread.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// `Entry` has is_used(), which is false of zeros. Fill an entry so that what is_used() looks at is
/// written last: if a signal handler interrupts and leaves by a jump, no entry is half another one.
template <typename Entry, uint32_t kEntries>
class KnownTable {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  /// nullptr: none.
  template <typename IsIt>
  __attribute__((always_inline)) Entry* find(uint64_t key, IsIt is_it) {
    for (uint32_t i = home(key);; ++i) {
      Entry& entry = entries_[i & (kEntries - 1)];
      if (!entry.is_used()) return nullptr;
      if (is_it(entry)) return &entry;
    }
  }

  /// Room for one that is not known yet.
  Entry& add(uint64_t key) {
    if (++used_ > kEntries / 4 * 3) {
      forget();
      used_ = 1;
    }
    uint32_t i = home(key);
    while (entries_[i & (kEntries - 1)].is_used()) ++i;
    return entries_[i & (kEntries - 1)];
  }

  void forget() {
    for (Entry& entry : entries_) entry = {};
    used_ = 0;
  }

  Entry& at(uint32_t slot) { return entries_[slot]; }
  uint32_t slot_of(const Entry& entry) const { return static_cast<uint32_t>(&entry - entries_); }

 private:
  static uint32_t home(uint64_t key) {
    return static_cast<uint32_t>(key * 0x9e3779b97f4a7c15u >> 32);
  }

  uint32_t used_;
  alignas(64) Entry entries_[kEntries];
};

}  // namespace gpupeak::preload
