// A hash table from a non-zero 64-bit key to a plain value: open addressing in pages of its own,
// grown by doubling. Not thread-safe. HOOK-SAFE: memory comes from map_pages().
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/compiler.h"
#include "base/memory.h"
#include "base/syscalls.h"
#include "gpupeak/pages.h"

namespace gpupeak::preload {

template <typename Value>
class FlatMap {
 public:
  /// nullptr if the key is not there. Valid until the next insert or erase.
  Value* find(uint64_t key) {
    if (capacity_ == 0 || key == 0) return nullptr;
    Entry* const entry = entry_for(entries_, capacity_, key);
    return entry->key == key ? &entry->value : nullptr;
  }

  /// Adds or replaces. False if no memory could be had, or for key 0.
  bool insert(uint64_t key, const Value& value) {
    bool is_new;
    Value* const place = room_for(key, is_new);
    if (place != nullptr) *place = value;
    if (is_new) enter(key, place);
    return place != nullptr;
  }

  /// The key's value. If `is_new`: room for a value, which the caller writes and then passes to
  /// enter(). nullptr if no memory could be had, or for key 0.
  __attribute__((always_inline)) Value* room_for(uint64_t key, bool& is_new) {
    is_new = false;
    if (key == 0) return nullptr;
    if (__builtin_expect((count_ + 1) * 4 > capacity_ * 3, 0) && !grow()) return find(key);
    Entry* const entry = entry_for(entries_, capacity_, key);
    is_new = entry->key == 0;
    return &entry->value;
  }
  /// Adds the key whose room room_for() has just given.
  void enter(uint64_t key, Value* value) {
    in_order();  // a handler that jumps out of here leaves no key with another key's value
    reinterpret_cast<Entry*>(reinterpret_cast<char*>(value) - offsetof(Entry, value))->key = key;
    ++count_;
  }

  void erase(uint64_t key) {
    if (Value* value = find(key)) erase(value);
  }

  /// Removes what find() has just given.
  void erase(const Value* value) {
    const auto offset = reinterpret_cast<const char*>(value) - reinterpret_cast<char*>(entries_);
    size_t hole = static_cast<size_t>(offset) / sizeof(Entry);
    // Close the gap: move back what could not be found over an empty entry.
    for (size_t i = (hole + 1) & (capacity_ - 1); entries_[i].key != 0;
         i = (i + 1) & (capacity_ - 1)) {
      const size_t distance_to_home = (i - home(entries_[i].key)) & (capacity_ - 1);
      const size_t distance_to_hole = (i - hole) & (capacity_ - 1);
      if (distance_to_home >= distance_to_hole) {
        entries_[hole] = entries_[i];
        hole = i;
      }
    }
    entries_[hole].key = 0;
    --count_;
  }

  /// Calls `visit(key, value)` for each entry, in no order. It must not insert or erase.
  template <typename Visit>
  void for_each(Visit visit) {
    for (size_t i = 0; i < capacity_; ++i) {
      if (entries_[i].key != 0) visit(entries_[i].key, entries_[i].value);
    }
  }

  /// Erases the entries for which `wants(key, value)` is true, and may ask twice about the others.
  template <typename Wants>
  void erase_if(Wants wants) {
    for (size_t i = 0; i < capacity_; ++i) {
      // What closes the gap comes from behind, or was asked about already.
      while (entries_[i].key != 0 && wants(entries_[i].key, entries_[i].value))
        erase(&entries_[i].value);
    }
  }

  size_t size() const { return count_; }
  /// For a forked child. Its pages are not given back: this is too rare to matter.
  void forget() {
    entries_ = nullptr;
    capacity_ = count_ = 0;
  }

 private:
  struct Entry {
    uint64_t key;
    Value value;
  };
  static constexpr size_t kFirstCapacity = 256;

  static size_t home(uint64_t key, size_t capacity) {
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> 32) & (capacity - 1);
  }
  size_t home(uint64_t key) const { return home(key, capacity_); }

  /// The entry that has the key, or the empty one for it.
  static __attribute__((always_inline)) Entry* entry_for(Entry* entries, size_t capacity,
                                                         uint64_t key) {
    size_t i = home(key, capacity);
    while (entries[i].key != key && entries[i].key != 0) i = (i + 1) & (capacity - 1);
    return &entries[i];
  }

  static size_t pages(size_t capacity) { return whole_pages(capacity * sizeof(Entry)); }

  bool grow() {
    const size_t old_capacity = capacity_;
    Entry* const old = entries_;
    const size_t capacity = old_capacity == 0 ? kFirstCapacity : old_capacity * 2;
    void* at = map_pages(pages(capacity));
    if (at == nullptr) return false;
    auto* const entries = static_cast<Entry*>(at);
    for (size_t i = 0; i < old_capacity; ++i) {
      if (old[i].key != 0) *entry_for(entries, capacity, old[i].key) = old[i];
    }
    entries_ = entries;
    in_order();  // a handler that jumps out of here leaves a table that can be read
    capacity_ = capacity;
    if (old != nullptr) unmap_pages(old, pages(old_capacity));
    return true;
  }

  Entry* entries_ = nullptr;
  size_t capacity_ = 0;
  size_t count_ = 0;
};

// Which keys have been seen: a lock-free set for many readers and rare additions. It can err in one
// way only: when it is full, everything counts as seen. HOOK-SAFE.

class SeenSet {
 public:
  /// `key` is not 0. Before the first add() nothing is seen.
  bool contains(uint64_t key) const {
    const std::atomic<uint64_t>* const keys = keys_.load(std::memory_order_acquire);
    if (keys == nullptr) return false;
    for (size_t i = home(key);; i = (i + 1) & (kCapacity - 1)) {
      const uint64_t found = keys[i].load(std::memory_order_relaxed);
      if (found == key) return true;
      if (found == 0) return count_.load(std::memory_order_relaxed) >= kMostKeys;
    }
  }

  /// True for the one caller that adds it.
  bool add(uint64_t key) {
    std::atomic<uint64_t>* const keys = storage();
    if (keys == nullptr || count_.load(std::memory_order_relaxed) >= kMostKeys) return false;
    for (size_t i = home(key);; i = (i + 1) & (kCapacity - 1)) {
      uint64_t found = 0;
      if (keys[i].compare_exchange_strong(found, key, std::memory_order_relaxed)) {
        count_.fetch_add(1, std::memory_order_relaxed);
        return true;
      }
      if (found == key) return false;
    }
  }

  /// Forgets all; a key that is added at the same moment may stay or go.
  void clear() {
    std::atomic<uint64_t>* const keys = keys_.load(std::memory_order_acquire);
    if (keys == nullptr || count_.load(std::memory_order_relaxed) == 0) return;
    clear_pages(keys, kCapacity);
    count_.store(0, std::memory_order_relaxed);
  }

 private:
  static constexpr size_t kCapacity = 1 << 16;
  static constexpr size_t kMostKeys = kCapacity * 3 / 4;

  static size_t home(uint64_t key) {
    return static_cast<size_t>((key * 0x9e3779b97f4a7c15u) >> 32) & (kCapacity - 1);
  }

  std::atomic<uint64_t>* storage() {
    auto* keys = keys_.load(std::memory_order_acquire);
    if (keys != nullptr) return keys;
    auto* fresh =
        static_cast<std::atomic<uint64_t>*>(map_pages(kCapacity * sizeof(std::atomic<uint64_t>)));
    if (fresh == nullptr) return nullptr;
    if (keys_.compare_exchange_strong(keys, fresh, std::memory_order_acq_rel)) return fresh;
    unmap_pages(fresh, kCapacity * sizeof(std::atomic<uint64_t>));
    return keys;
  }

  std::atomic<std::atomic<uint64_t>*> keys_{nullptr};
  std::atomic<size_t> count_{0};
};

}  // namespace gpupeak::preload
