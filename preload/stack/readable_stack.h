// Which part of its stack a thread may read while it follows frames. Unwind rules are wrong where
// assembly switches to another stack, and frame pointers may be no frame pointers: both lead to
// words that were never written, or behind the stack's end.
#pragma once

#include <atomic>
#include <cstdint>

namespace gpupeak::preload {

/// For Valgrind: it complains of a word without a value if the kernel compares the word, but not if
/// the kernel copies it out of a process.
void probe_by_copies();

/// Pages in one piece that were found readable, page by page, and are still mapped: munmap and its
/// like are watched (StackCache, mapping.cc). Written by its thread alone. HOOK-SAFE.
class ReadableStack {
 public:
  /// Whether all from `sp`, where the thread's stack is in use, up to `end` can be read.
  bool reaches(uintptr_t sp, uintptr_t end) { return has(sp, end) || extend(sp, end); }
  /// Whether all from `sp` up to `end` is known to be readable. Callable from any thread.
  bool has(uintptr_t sp, uintptr_t end) const { return begin() <= sp && end <= this->end(); }
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

/// The stack that the thread was started on, from its top down to where it was seen in use: all of
/// it was found readable, in one piece, and stays so as long as the thread lives. HOOK-SAFE.
class OwnStack {
 public:
  bool has(uintptr_t sp, uintptr_t end) const { return begin_ <= sp && end <= end_; }
  /// The same, after a look at what lies between. False: this is another stack, or none.
  bool reaches(uintptr_t sp, uintptr_t end);
  void forget() { begin_ = end_ = 0; }

 private:
  bool begins_at(uintptr_t sp, uintptr_t top);

  uintptr_t begin_ = 0, end_ = 0;
};

}  // namespace gpupeak::preload
