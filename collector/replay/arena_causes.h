// Tells why arenas are as large as they are. Each segment has a cause: the call that took it from
// the driver, as a group of Replay's. It also has the bytes that the first request in it needed.
// What an arena has reserved is at each instant the sum of its causes, to the byte.
//
// Each arena also has a list of the steps by which it became larger than ever before. Their bytes
// add up to the most that it had reserved. ArenaTable and PoolReserves keep one each.
//
//   take 20 (A), take 10 (B), give back 20 (A), take 25 (A):  reserved 20 30 10 35
//   growths: A 20, B 10, A 5        causes at 35: A 25, B 10
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "collector/replay/peak_finder.h"

namespace gpupeak::collector {

class ArenaCauses {
 public:
  /// A segment that an arena takes or gives back.
  struct Segment {
    GroupId taken_by = kNoGroup;  ///< Replay's; kNoGroup: it is not known to be of the driver
    uint64_t bytes = 0;
    uint64_t asked_bytes = 0;  ///< of these, what the request needed
  };
  /// All segments of an arena that were taken by one group.
  struct Cause {
    size_t arena = 0;
    GroupId taken_by = kNoGroup;
    Segment largest;            ///< the largest segment of all
    uint64_t in_use_bytes = 0;  ///< what the arena had in use when that one was taken
    uint64_t ticks = 0;         ///< when that one was taken
  };
  /// The arena became larger than ever before. Several such steps in a row with one cause are one.
  struct Growth {
    GroupId taken_by = kNoGroup;
    uint64_t ticks = 0;           ///< of the first step
    uint64_t bytes = 0;           ///< by how much it became larger than ever before
    uint64_t asked_bytes = 0;     ///< what the requests needed
    uint64_t in_use_bytes = 0;    ///< before the first step
    uint64_t reserved_bytes = 0;  ///< after the last one
  };

  void take(size_t arena, const Segment& segment, uint64_t in_use_bytes, uint64_t ticks);
  /// Gives back a segment that was taken.
  void give_back(size_t arena, const Segment& segment);
  /// Call it after the last change. Throws std::logic_error if the causes of an arena do not add
  /// up.
  void finish() { peaks_.finish(); }

  /// By the number that at_largest() takes: the cause's group.
  const std::vector<Cause>& causes() const { return causes_; }
  /// What a cause had when its arena was largest. Call it after finish().
  PeakFinder::AtPeak at_largest(GroupId cause) const {
    return peaks_.at_peak(cause, scopes_.at(causes_[cause].arena));
  }
  /// In the order of time.
  const std::vector<Growth>& growths(size_t arena) const;
  /// The sum of the arena's causes now.
  uint64_t reserved(size_t arena) const;

 private:
  GroupId group_of(size_t arena, GroupId taken_by);

  PeakFinder peaks_;
  std::map<size_t, ScopeId> scopes_;  // by arena
  std::map<std::pair<size_t, GroupId>, GroupId> groups_;
  std::vector<Cause> causes_;
  std::map<size_t, std::vector<Growth>> growths_;
};

}  // namespace gpupeak::collector
