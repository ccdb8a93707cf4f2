// A hash table of what a thread has found before: open addressing in place, in memory that begins
// as zeros. No entry pushes another one out: when three quarters are used, all is forgotten, and
// what is still needed is soon found again. HOOK-SAFE; of one thread.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// `Entry` has is_used(), which is false for zeros. When you fill an entry, write last what
/// is_used() looks at: then a signal handler that leaves by a jump leaves no half entry.
template <typename Entry, uint32_t kEntries>
class KnownTable {
  static_assert((kEntries & (kEntries - 1)) == 0);

 public:
  /// The entry for which `is_it` is true; nullptr: there is none.
  template <typename IsIt>
  __attribute__((always_inline)) Entry* find(uint64_t key, IsIt is_it) {
    for (uint32_t i = home(key);; ++i) {
      Entry& entry = entries_[i & (kEntries - 1)];
      if (!entry.is_used()) return nullptr;
      if (is_it(entry)) return &entry;
    }
  }

  /// Room for an entry that is not in the table yet.
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
