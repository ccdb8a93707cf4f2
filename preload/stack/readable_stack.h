// Which part of its stack a thread may read while it follows frame pointers that no unwind rule
// confirms.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupeak::preload {

/// Pages in one piece that were found readable, page by page, and are still mapped: munmap and its
/// like are watched (StackCache, mapping.cc). Written by its thread alone. HOOK-SAFE.
class ReadableStack {
 public:
  /// Whether all from `sp`, where the thread's stack is in use, up to `end` can be read.
  bool reaches(uintptr_t sp, uintptr_t end) {
    return (begin() <= sp && end <= this->end()) || extend(sp, end);
  }
  /// Whether it has pages of [begin, end). Callable from any thread.
  bool overlaps(uintptr_t begin, uintptr_t end) const {
    return begin < this->end() && this->begin() < end;
  }
  void forget() { set(0, 0); }

 private:
  uintptr_t begin() const { return begin_.load(std::memory_order_relaxed); }
  uintptr_t end() const { return end_.load(std::memory_order_relaxed); }
  void set(uintptr_t begin, uintptr_t end) {
    begin_.store(begin, std::memory_order_relaxed);
    end_.store(end, std::memory_order_relaxed);
  }
  bool extend(uintptr_t sp, uintptr_t end);

  std::atomic<uintptr_t> begin_{0}, end_{0};
};

}  // namespace gpupeak::preload
