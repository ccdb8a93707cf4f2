// The one cache line that hooks/malloc_entry_*.S read at each malloc and free, and that nearly all
// calls behind them need. HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/hook_scope.h"

namespace gpupeak::preload {

// How many bytes the allocator keeps for a block: malloc_usable_size(), but without the call if the
// allocator is glibc's. Every recorded malloc and free asks. HOOK-SAFE.
//
//   malloc(100) of glibc: the word before the block is 113 = 112 + a flag  →  112 - 8 = 104 bytes

/// glibc has a block's size in the word before it, with flags in the lowest bits; free() reads this
/// word in any case. malloc_usable_size() also looks at the block behind, to see that this one is
/// in use, and that one is in no cache. Whether the word agrees with malloc_usable_size() is seen
/// from the first blocks of this process. Until then, and with all other allocators,
/// malloc_usable_size() is asked.
class BlockSize {
 public:
  using UsableSize = size_t (*)(void*);

  /// Call it before all else. `is_glibc`: malloc, free and `usable_size` are those of glibc.
  void init(UsableSize usable_size, bool is_glibc) {
    ask_ = usable_size;
    if (is_glibc) to_compare_.store(kCompared, std::memory_order_relaxed);
  }

  /// Usable bytes of a live block; 0 if the allocator cannot say.
  __attribute__((always_inline)) size_t operator()(void* block) {
    if (__builtin_expect(reads_word_.load(std::memory_order_relaxed), 1)) {
      const size_t word = word_before(block);
      if (__builtin_expect((word & kIsMapped) == 0, 1)) return bytes_by(word);
    }
    return ask(block);
  }

 private:
  static constexpr size_t kFlags = 7, kIsMapped = 2;
  static constexpr uint32_t kCompared = 64;

  static size_t word_before(const void* block) { return static_cast<const size_t*>(block)[-1]; }
  static size_t bytes_by(size_t word) { return (word & ~kFlags) - sizeof(size_t); }

  __attribute__((noinline)) size_t ask(void* block) {
    const AllocatorScope scope;  // tcmalloc allocates when it is asked for the first time
    const size_t bytes = ask_(block);
    const uint32_t left = to_compare_.load(std::memory_order_relaxed);
    if (left == 0) return bytes;
    const size_t word = word_before(block);
    if ((word & kIsMapped) != 0) return bytes;
    if (bytes_by(word) != bytes) {
      to_compare_.store(0, std::memory_order_relaxed);
      return bytes;
    }
    uint32_t before = left;  // another thread's block may have differed since
    const bool counted =
        to_compare_.compare_exchange_strong(before, left - 1, std::memory_order_relaxed);
    if (counted && left == 1) reads_word_.store(true, std::memory_order_relaxed);
    return bytes;
  }

  std::atomic<bool> reads_word_{false};
  std::atomic<uint32_t> to_compare_{0};  ///< blocks still to compare; 0: decided
  UsableSize ask_ = nullptr;
};

struct alignas(64) MallocEntry {
  bool resolved;
  bool passes;              ///< the host's memory is not recorded, and never will be
  void* (*malloc)(size_t);  ///< libc's, or another preloaded one
  void (*free)(void*);
  uintptr_t loader_begin, loader_bytes;  ///< the dynamic loader's code, once it is known
  BlockSize usable_bytes;
};
static_assert(offsetof(MallocEntry, passes) == 1 && offsetof(MallocEntry, malloc) == 8 &&
              offsetof(MallocEntry, free) == 16 && offsetof(MallocEntry, loader_begin) == 24 &&
              offsetof(MallocEntry, loader_bytes) == 32 && sizeof(MallocEntry) == 64);

extern "C" MallocEntry gpupeak_malloc_entry;

}  // namespace gpupeak::preload
