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
#include <vector>

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

  void instance_began(PhaseId phase, uint64_t number, uint64_t ticks);
  void instance_ended(PhaseId phase, uint64_t number, uint64_t ticks);

  /// Empty if looking would have taken too long.
  const std::vector<Track>& tracks() const { return tracks_; }

 private:
  static constexpr uint64_t kMostVisits[kPhaseSides] = {UINT64_C(1) << 26, UINT64_C(1) << 25};
  static constexpr uint64_t kMostHeld = UINT64_C(1) << 22, kMostLatest = UINT64_C(1) << 26;

  Track* track_of(PhaseId phase);
  Point look(uint64_t number, uint64_t ticks);
  void look_at(PhaseSide side, std::vector<Held>& held);
  void keep(Track& track, Point point);
  void thin(Track& track);
  static void find_growing(Track& track);
  void note_latest(Track& track, uint64_t number, uint64_t ticks);
  uint64_t bytes_of(PhaseSide side, GroupId group) const;
  bool is_dropped(const Track& track) const {
    return few_ && &track >= tracks_.data() + kFewTracks;
  }
  void keep_few();
  void give_up(PhaseSide side);

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
