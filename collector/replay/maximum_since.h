// The largest of the values that came since a point in time, for any number of such points.
//
//   add()     5   9   3   7          now() before each: 0 1 2 3
//   since(0)  9   since(2)  7   since(3)  7   since(4)  0: nothing has come
//
// Only values that no later one reaches are kept, so they fall: 9 7. A value is added and removed
// once, and since() is a binary search, however many points there are.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpupeak::collector {

class MaximumSince {
 public:
  /// The point in time between the values so far and the next.
  uint64_t now() const { return count_; }

  void add(uint64_t value) {
    while (!kept_.empty() && kept_.back().value <= value) kept_.pop_back();
    kept_.push_back({count_++, value});
  }

  uint64_t since(uint64_t point) const {
    const auto first =
        std::lower_bound(kept_.begin(), kept_.end(), point,
                         [](const Kept& kept, uint64_t wanted) { return kept.place < wanted; });
    return first == kept_.end() ? 0 : first->value;
  }

 private:
  struct Kept {
    uint64_t place, value;
  };
  std::vector<Kept> kept_;
  uint64_t count_ = 0;
};

}  // namespace gpupeak::collector
