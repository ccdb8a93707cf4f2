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
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/log/event.h"
#include "collector/replay/peak_finder.h"
#include "collector/replay/troubles.h"

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

// What the driver's memory pools have reserved, by device, and which requests made them do so. A
// pool that is destroyed while it has live blocks keeps its memory until the last of them is freed;
// by then its handle may name a new pool. Replay calls it.
//
// The log has what a pool had reserved after each call that may have changed it. If that grew and
// one request came since the reading before, that request is the cause. No event says what a pool
// gives back. But it must still have what it took for blocks that are live. What is left beyond
// that has no known cause.
//
//   request 40 (A), reads 64; request 8 (B), reads 64: served from what there was; request 100 (C),
//   reads 192; A is freed, reads 160     causes: A 64, C 128; then C 128, not known 32

class PoolReserves {
 public:
  /// The number of one pool; it is never used for another.
  using Id = uint32_t;
  static constexpr Id kNone = 0;
  /// Causes that are no group of Replay's.
  /// No request or several ones came since the last reading.
  static constexpr GroupId kSeveral = kNoGroup;
  /// Memory of unknown cause that was left when some was given back.
  static constexpr GroupId kLeft{kNoGroup - 1};

  struct Block {
    uint64_t id = 0;
    GroupId group = kNoGroup;
    uint64_t bytes = 0;
  };
  /// When the pools of a device had reserved most.
  struct Largest {
    uint64_t ticks = 0;
    uint64_t reserved_bytes = 0, in_use_bytes = 0;
  };
  using IsLive = std::function<bool(uint64_t block)>;

  void on_event(const PoolEvent& event, uint64_t ticks, const IsLive& is_live);
  /// A block is allocated from the pool that has this handle now; 0: from none. The caller keeps
  /// the result with the block.
  Id allocated(uint64_t handle, const Block& block);
  void freed(Id pool, uint64_t bytes);
  /// The free of a block failed.
  void revived(Id pool, uint64_t bytes);
  void finish() { causes_.finish(); }

  /// By device; -1: all devices.
  const std::map<int32_t, Gauge>& reserved() const { return reserved_; }
  /// The pools of each device together are one arena in it, by ordinal.
  const ArenaCauses& causes() const { return causes_; }
  const std::map<int32_t, Largest>& largest() const { return largest_; }

 private:
  struct Segment {
    ArenaCauses::Segment taken;
    uint64_t block = 0;  ///< for which it was taken; 0: for none, or not known
  };
  struct Pool {
    int32_t device = -1;
    uint64_t reserved = 0, blocks = 0, in_use = 0;
    bool destroyed = false;
    std::vector<Segment> segments;  ///< only if it is a device's pool; they add up to `reserved`
    Block last;                     ///< the last request since the last reading
    uint64_t requests = 0;          ///< how many since then
  };
  Id id_of(uint64_t handle);
  void change(Pool& pool, int32_t device, uint64_t reserved);
  void grow(Pool& pool, uint64_t bytes, uint64_t ticks);
  void shrink(Pool& pool, uint64_t bytes, uint64_t ticks, const IsLive& is_live);
  void give_back_all(Pool& pool);
  uint64_t in_use_of(int32_t device) const;

  std::unordered_map<uint64_t, Id> by_handle_;
  std::unordered_map<Id, Pool> pools_;
  Id last_ = kNone;
  std::map<int32_t, Gauge> reserved_;
  std::map<int32_t, Largest> largest_;
  ArenaCauses causes_;
};

}  // namespace gpupeak::collector
