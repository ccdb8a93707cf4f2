// What each holder of device memory had at its own allocations, from which growth_summary tells
// what grows in a program without phases: blocks that come at an even pace and stay. A point has
// the least that the holder had since the point before, so that what comes and goes within a step
// is not in it. Each holder's points are bounded: of many allocations every second, fourth … has
// one. A holder that keeps one of its two blocks a step:
//
//   allocation   1   2   3   4   5   6        one of each two is freed before the next comes
//   point        0   0   1   1   2   2        blocks
//
// ArenaTable keeps one. What is freed after the last allocation of all is freed by the end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/replay/peak_finder.h"

namespace gpupeak::collector {

class SteadyGrowth {
 public:
  static constexpr size_t kMostPoints = 32;

  struct Amount {
    uint64_t bytes = 0, blocks = 0;
  };
  struct Point {
    uint64_t number = 0;  ///< of the holder's allocation
    uint64_t ticks = 0;
    Amount least;        ///< since the point before, until this allocation
    uint64_t freed = 0;  ///< blocks that anybody had freed
    uint64_t gap = 0;    ///< most allocations of anybody between two of the holder's, since then
  };
  struct Series {
    uint64_t allocs = 0, stride = 1;
    Amount now, least;
    uint64_t gap = 0, last = 0;  ///< last: the number of its last allocation, of anybody's
    uint64_t freed_after = 0;    ///< the allocation of anybody after which it freed first …
    Amount before_freed;         ///< … and what it had before that
    std::vector<Point> points;
  };

  /// `claims`: memory only goes from one holder to another.
  void take(std::span<const PeakFinder::Change> step, uint64_t ticks, bool claims) {
    for (const PeakFinder::Change& change : step) {
      if (change.count == 0) continue;  // idle memory
      const auto group = static_cast<size_t>(change.group);
      if (series_.size() <= group) series_.resize(group + 1);
      if (change.count < 0) {
        freed_ += !claims;
        freed(series_[group], change);
      } else {
        allocated(series_[group], change, ticks);
      }
    }
  }

  /// By the holder's group.
  const std::vector<Series>& series() const { return series_; }
  /// What the holder had at the last allocation of anybody.
  Amount at_end(const Series& of) const {
    return of.freed_after == allocs_ ? of.before_freed : of.now;
  }
  /// How many allocations of others came after the holder's last one.
  uint64_t since_last(const Series& of) const { return allocs_ - of.last; }

 private:
  void freed(Series& of, const PeakFinder::Change& change) {
    if (of.freed_after != allocs_) {
      of.freed_after = allocs_;
      of.before_freed = of.now;
    }
    of.now.bytes += static_cast<uint64_t>(change.bytes);
    of.now.blocks += static_cast<uint64_t>(static_cast<int64_t>(change.count));
    if (of.now.bytes < of.least.bytes) of.least = of.now;
  }
  void allocated(Series& of, const PeakFinder::Change& change, uint64_t ticks) {
    ++allocs_;
    if (of.allocs++ > 0) of.gap = std::max(of.gap, allocs_ - of.last);
    of.last = allocs_;
    if (of.allocs % of.stride == 0) {
      of.points.push_back({of.allocs, ticks, of.least, freed_, of.gap});
      if (of.points.size() == kMostPoints) thin(of);
      of.gap = 0;
      of.least.bytes = UINT64_MAX;
    }
    of.now.bytes += static_cast<uint64_t>(change.bytes);
    of.now.blocks += static_cast<uint64_t>(change.count);
    if (of.now.bytes < of.least.bytes) of.least = of.now;
  }
  /// A point that goes is in the next one.
  static void thin(Series& of) {
    of.stride *= 2;
    std::vector<Point> kept;
    for (size_t i = 1; i < of.points.size(); i += 2) {
      Point point = of.points[i];
      const Point& before = of.points[i - 1];
      if (before.least.bytes < point.least.bytes) point.least = before.least;
      point.gap = std::max(point.gap, before.gap);
      kept.push_back(point);
    }
    of.points = std::move(kept);
  }

  std::vector<Series> series_;
  uint64_t allocs_ = 0, freed_ = 0;  ///< of anybody
};

}  // namespace gpupeak::collector
