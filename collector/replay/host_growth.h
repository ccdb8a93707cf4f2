// What each group of host memory had at its own allocations, from which growth_summary tells what
// grows in a program without phases. Looks are so few that the replay does not get slower: a group
// that keeps its blocks is looked at at each second, fourth … allocation, others ever more seldom.
// What a later look finds lowers all points before it, so a point has what stayed:
//
//   look       1    2    3    4    5    6         bytes that the group has
//   found    100  200  900  300  400  500
//   points   100  200  300  300  400  500
//
// GroupAccounts keeps one, and PeakFinder tells it of the time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace gpupeak::collector {

struct GrowthPoint {
  struct Amount {
    uint64_t bytes = 0, blocks = 0;
  };
  uint64_t number = 0;  ///< of the holder's allocation
  uint64_t ticks = 0;
  Amount least;        ///< since the point before, until this allocation
  uint64_t freed = 0;  ///< blocks that anybody had freed
  uint64_t gap = 0;    ///< most allocations of anybody between two of the holder's, since then
};

class HostGrowth {
 public:
  static constexpr uint32_t kFirstLook = 2;  ///< at a group's allocation of this number
  static constexpr size_t kMostPoints = 32, kMostSeries = 4096;

  struct Series {
    uint64_t stride = 1;
    uint64_t last = 0;  ///< of anybody's allocations, which had the last point
    std::vector<GrowthPoint> points;
  };
  /// How often anybody freed and allocated, and how many notes there were of it.
  struct Clock {
    uint64_t freed = 0, allocs = 0, notes = 0;
  };

  /// At an allocation of so many bytes that is due. `group` is a GroupAccounts::Group after it.
  template <class Group>
  void look(uint32_t id, Group& group, uint64_t bytes, const Clock& clock) {
    const GrowthPoint::Amount before{group.live_bytes - bytes, group.live_count - 1};
    auto entry = series_.find(id);
    if (entry == series_.end()) {
      set_next(group, group.alloc_count * 2);
      if (before.blocks == 0 || group.live_bytes < worth_) return;
      if (series_.size() == kMostSeries) forget_small();
      entry = series_.try_emplace(id).first;
    }
    Series& of = entry->second;
    for (auto point = of.points.rbegin(); point != of.points.rend(); ++point) {
      if (point->least.bytes <= before.bytes) break;
      point->least = before;
    }
    of.points.push_back({group.alloc_count, clock.notes, before, clock.freed, clock.allocs});
    if (of.points.size() == kMostPoints) {
      of.stride *= 2;
      std::erase_if(of.points, [&](const auto& point) { return point.number % of.stride != 0; });
    }
    set_next(group, (group.alloc_count / of.stride + 1) * of.stride);
  }
  /// The replay is at this instant.
  void note_time(uint64_t notes, uint64_t ticks) {
    if (!times_.empty() && notes < times_.back().notes + apart_) return;
    if (times_.size() == kMostTimes) {
      apart_ *= 2;
      for (size_t i = 0; i < kMostTimes / 2; ++i) times_[i] = times_[2 * i];
      times_.resize(kMostTimes / 2);
    }
    times_.push_back({notes, ticks});
  }
  /// After the last note: points get their times and gaps.
  void finish(const Clock& clock) {
    allocs_ = clock.allocs;
    for (auto& [id, of] : series_) {
      for (size_t i = of.points.size(); i-- > 0;) {
        GrowthPoint& point = of.points[i];
        point.ticks = ticks_at(point.ticks);
        if (i + 1 == of.points.size()) of.last = point.gap;
        const GrowthPoint& before = of.points[i > 0 ? i - 1 : 0];
        point.gap = i > 0 ? (point.gap - before.gap) / (point.number - before.number) : 0;
      }
    }
  }

  /// By group; only those that kept blocks.
  const std::map<uint32_t, Series>& series() const { return series_; }
  uint64_t allocs() const { return allocs_; }

 private:
  struct Time {
    uint64_t notes, ticks;
  };
  static constexpr size_t kMostTimes = 4096;

  template <class Group>
  static void set_next(Group& group, uint64_t number) {
    group.next_look = static_cast<uint32_t>(std::min<uint64_t>(number, UINT32_MAX));
  }
  void forget_small() {
    while (series_.size() > kMostSeries / 2) {
      worth_ *= 2;
      std::erase_if(series_, [&](const auto& entry) {
        return entry.second.points.back().least.bytes < worth_;
      });
    }
  }
  uint64_t ticks_at(uint64_t notes) const {
    const auto after = std::ranges::lower_bound(times_, notes, {}, &Time::notes);
    if (after == times_.end()) return times_.empty() ? 0 : times_.back().ticks;
    if (after == times_.begin()) return after->ticks;
    const Time& before = *std::prev(after);
    const double share = static_cast<double>(notes - before.notes) /
                         static_cast<double>(after->notes - before.notes);
    return before.ticks +
           static_cast<uint64_t>(share * static_cast<double>(after->ticks - before.ticks));
  }

  std::map<uint32_t, Series> series_;
  std::vector<Time> times_;
  uint64_t apart_ = 1, worth_ = 4096, allocs_ = 0;
};

}  // namespace gpupeak::collector
