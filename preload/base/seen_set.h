// Which keys have been seen: a lock-free set for many readers and rare additions. It can err in one
// way only: when it is full, everything counts as seen. HOOK-SAFE.
#pragma once

#include <sys/mman.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/memory.h"
#include "base/syscalls.h"

namespace gpupeak::preload {

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
