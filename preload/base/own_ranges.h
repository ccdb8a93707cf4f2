// Addresses that the preload has mapped. No locks. HOOK-SAFE.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace gpupeak::preload {

inline uint64_t bytes_in_both(uint64_t a_begin, uint64_t a_end, uint64_t begin, uint64_t end) {
  const uint64_t from = std::max(a_begin, begin), to = std::min(a_end, end);
  return from < to ? to - from : 0;
}

class OwnRanges {
 public:
  void add(uintptr_t begin, uintptr_t bytes) {
    for (Range& one : ranges_) {
      uintptr_t free = 0;
      if (!one.begin.compare_exchange_strong(free, kTaken)) continue;
      one.end = begin + bytes;
      one.begin = begin;  // last: nobody reads it with the end of another range
      return;
    }
  }

  /// Takes away all of a range, or a part at its beginning or end.
  void take(uintptr_t from, uintptr_t bytes) {
    for (Range& one : ranges_) {
      const uintptr_t begin = one.begin, end = one.end;
      if (begin == 0 && end == 0) return;
      if (begin <= kTaken || from < begin || from >= end) continue;
      if (from != begin)
        one.end = from;
      else
        one.begin = from + bytes < end ? from + bytes : 0;
      return;
    }
  }

  /// Bytes of the ranges that lie between these. What others add or take meanwhile may be in it.
  uint64_t within(uintptr_t from, uintptr_t to) const {
    uint64_t bytes = 0;
    for (const Range& one : ranges_) {
      const uintptr_t begin = one.begin, end = one.end;
      if (begin == 0 && end == 0) break;
      if (begin > kTaken && begin == one.begin) bytes += bytes_in_both(begin, end, from, to);
    }
    return bytes;
  }

 private:
  static constexpr uintptr_t kTaken = 1;  ///< as a beginning: the range is being added
  struct Range {
    std::atomic<uintptr_t> begin, end;  ///< begin is 0: free; both are 0: so are all behind it
  };
  Range ranges_[4096];  ///< what more there is counts as the program's
};

}  // namespace gpupeak::preload
