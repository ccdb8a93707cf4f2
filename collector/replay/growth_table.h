// What each site held at the ends of a repeated phase's instances. From these points growth_summary
// tells what grows with each step. The points are bounded: of many instances every second, fourth …
// is kept, and the first; of many phases those that first came again. After an instance without a
// point, only what was growing before is looked at.
//
//   instance   1   2   3   4   5   6   7        (kMostPoints = 4)
//   points     1   2   3   4                    full: thinned to the first and every second
//              1   2       4   5→  6            full again: the first and every fourth
//              1           4           7→       → is the latest instance, which has no point
//
// Replay keeps one; PhaseTree tells it of instances.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "collector/log/kinds.h"
#include "collector/replay/arena_table.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/phase_tree.h"

namespace gpupeak::collector {

class GrowthTable {
 public:
  static constexpr size_t kMostPoints = 32, kMostTracks = 48;
  /// Once looking at all tracks has cost much, points are taken for these alone: outer phases come
  /// first.
  static constexpr size_t kFewTracks = 6;

  /// A group and its bytes. On the device side the group is ArenaTable's, on the host side
  /// Replay's.
  struct Held {
    GroupId group;
    uint64_t bytes;
  };
  struct Point {
    uint64_t number = 0;  ///< number of the instance that has ended
    uint64_t ticks = 0;
    std::vector<Held> sides[kPhaseSides];  ///< groups with bytes, in order
  };
  struct Track {
    PhaseId phase = 0;
    uint64_t stride = 1;
    std::vector<Point> points;  ///< in the order of their numbers
    /// What grew between the last two points; `latest` has what it holds after the latest instance.
    std::vector<GroupId> growing[kPhaseSides];
    Point latest;
  };

  GrowthTable(const LiveMemory& live, const ArenaTable& arenas) : live_(live), arenas_(arenas) {}

  /// A phase that comes again is watched. Its first instance has just ended, or ended a little
  /// while ago.
  void instance_began(PhaseId phase, uint64_t number, uint64_t ticks) {
    const size_t most = few_ ? kFewTracks : kMostTracks;
    if (number != 2 || tracks_.size() >= most || off_[kDeviceSide]) return;
    if (by_phase_.size() <= phase) by_phase_.resize(phase + 1);
    tracks_.emplace_back().phase = phase;
    by_phase_[phase] = static_cast<uint32_t>(tracks_.size());
    keep(tracks_.back(), look(1, ticks));
  }
  void instance_ended(PhaseId phase, uint64_t number, uint64_t ticks) {
    Track* const track = track_of(phase);
    // Instances in several threads may end in another order than they began.
    if (track == nullptr || track->points.empty() || number <= track->points.back().number) return;
    if (number % track->stride != 0) return note_latest(*track, number, ticks);
    keep(*track, look(number, ticks));
  }

  /// Empty if looking would have taken too long.
  const std::vector<Track>& tracks() const { return tracks_; }

 private:
  static uint64_t held_by(const Point& point) {
    return point.sides[kDeviceSide].size() + point.sides[kHostSide].size();
  }

  static constexpr uint64_t kMostVisits[kPhaseSides] = {UINT64_C(1) << 26, UINT64_C(1) << 25};
  static constexpr uint64_t kMostHeld = UINT64_C(1) << 22, kMostLatest = UINT64_C(1) << 26;

  Track* track_of(PhaseId phase) {
    return phase < by_phase_.size() && by_phase_[phase] > 0 ? &tracks_[by_phase_[phase] - 1]
                                                            : nullptr;
  }
  Point look(uint64_t number, uint64_t ticks) {
    Point point;
    point.number = number;
    point.ticks = ticks;
    for (const PhaseSide side : {kDeviceSide, kHostSide}) look_at(side, point.sides[side]);
    return point;
  }
  void look_at(PhaseSide side, std::vector<Held>& held) {
    if (off_[side]) return;
    const size_t groups =
        side == kDeviceSide ? arenas_.holders().size() : live_.sites().group_count();
    visits_[side] += groups;
    if (visits_[side] > kMostVisits[side] && !few_) keep_few();
    if (visits_[side] > kMostVisits[side]) return give_up(side);
    held.reserve(last_held_[side] + last_held_[side] / 8);
    for (GroupId group{0}; group < groups; ++group) {
      if (const uint64_t bytes = bytes_of(side, group); bytes > 0) held.push_back({group, bytes});
    }
    last_held_[side] = held.size();
  }
  void keep(Track& track, Point point) {
    held_ += held_by(point);
    track.latest = {};
    track.points.push_back(std::move(point));
    if (off_[kDeviceSide] || is_dropped(track)) track.points.clear();
    find_growing(track);
    if (track.points.size() == kMostPoints) thin(track);
    if (held_ > kMostHeld) {
      for (Track& one : tracks_) thin(one);
    }
    if (held_ > kMostHeld) give_up(kHostSide);
  }
  void thin(Track& track) {
    if (track.points.size() < kMostPoints / 2) return;
    track.stride *= 2;
    std::erase_if(track.points, [&](const Point& point) {
      // The first stays, since all growth is told from there.
      const bool goes =
          point.number != track.points.front().number && point.number % track.stride != 0;
      if (goes) held_ -= held_by(point);
      return goes;
    });
  }
  static void find_growing(Track& track) {
    for (std::vector<GroupId>& growing : track.growing) growing.clear();
    if (track.points.size() < 2) return;
    const Point& last = track.points.back();
    const Point& before = track.points[track.points.size() - 2];
    for (const PhaseSide side : {kDeviceSide, kHostSide}) {
      auto old = before.sides[side].begin();
      for (const Held& held : last.sides[side]) {
        while (old != before.sides[side].end() && old->group < held.group) ++old;
        const bool known = old != before.sides[side].end() && old->group == held.group;
        if (held.bytes > (known ? old->bytes : 0)) track.growing[side].push_back(held.group);
      }
    }
  }
  /// Notes what the growing groups hold now. If that would take too long, the last point is near
  /// enough.
  void note_latest(Track& track, uint64_t number, uint64_t ticks) {
    track.latest = {};
    latest_visits_ += 1 + track.growing[kDeviceSide].size() + track.growing[kHostSide].size();
    if (latest_visits_ > kMostLatest) return;
    track.latest.number = number;
    track.latest.ticks = ticks;
    for (const PhaseSide side : {kDeviceSide, kHostSide}) {
      for (const GroupId group : track.growing[side])
        track.latest.sides[side].push_back({group, bytes_of(side, group)});
    }
  }
  /// 0 for memory that is no site's, or is counted elsewhere.
  uint64_t bytes_of(PhaseSide side, GroupId group) const {
    if (side == kDeviceSide) {
      const ArenaTable::Holder& holder = arenas_.holders()[group];
      const bool of_device =
          holder.what == ArenaTable::What::kOutside ||
          (holder.what == ArenaTable::What::kInUse && arenas_.arenas()[holder.arena].place >= 0);
      return of_device ? arenas_.peaks().group(group).live_bytes : 0;
    }
    const uint64_t bytes = live_.peaks().group(group).live_bytes;
    if (bytes == 0) return 0;  // most groups, where there are many phases
    const SiteContext& context = live_.sites().context_of(group);
    const bool counts = !is_device_kind(context.kind) && counts_into_sum(context.kind);
    return counts && context.sample_bytes == 0 ? bytes : 0;
  }
  bool is_dropped(const Track& track) const {
    return few_ && &track >= tracks_.data() + kFewTracks;
  }
  /// Drops all tracks but the first few, which get a new budget.
  void keep_few() {
    few_ = true;
    for (const PhaseSide side : {kDeviceSide, kHostSide}) visits_[side] = 0;
    for (Track& track : tracks_) {
      if (!is_dropped(track)) continue;
      for (const Point& point : track.points) held_ -= held_by(point);
      track.points.clear();
      track.latest = {};
    }
  }
  /// Drops a side's points: those of half a run would be wrong for the whole.
  void give_up(PhaseSide side) {
    off_[side] = true;
    for (Track& track : tracks_) {
      for (Point& point : track.points) point.sides[side].clear();
      track.latest.sides[side].clear();
      if (side == kDeviceSide) track.points.clear();
    }
  }

  const LiveMemory& live_;
  const ArenaTable& arenas_;
  std::vector<Track> tracks_;
  std::vector<uint32_t> by_phase_;  // place in tracks_ + 1
  uint64_t visits_[kPhaseSides] = {};
  bool off_[kPhaseSides] = {};
  bool few_ = false;
  uint64_t held_ = 0;
  /// Groups at the last look: the next look will find about as many.
  size_t last_held_[kPhaseSides] = {};
  uint64_t latest_visits_ = 0;
};

}  // namespace gpupeak::collector
