// The rows and sums of arenas: one row for all arenas of a name in a place, and for each piece of
// memory the group that holds it: in use by a name or a stack, idle in a row, or outside of all.
// What changes at once is gathered and applied as one step. ArenaTable drives it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/replay/peak_finder.h"
#include "collector/replay/used_ranges.h"

namespace gpupeak::collector {

class ArenaAccounts {
 public:
  /// Where memory lies: a device's ordinal or one of these.
  static constexpr int32_t kHost = -1;
  static constexpr int32_t kNowhere = -2;  ///< in no block that the log knows
  static constexpr int32_t kAllDevices = -1;

  /// Arenas of one name in one place.
  struct Arena {
    uint32_t name = 0;  ///< Replay::name()
    int32_t place = kNowhere;
    uint64_t count = 0;           ///< that there were
    uint64_t capacity_bytes = 0;  ///< of those that live and said it
    uint64_t largest_capacity_bytes = 0;
    uint64_t alloc_count = 0;
    uint64_t failed_count = 0;                        ///< requests
    uint64_t largest_block = 0, largest_refused = 0;  ///< in bytes; 0: none
    ScopeId scope = 0;                                ///< in use
    ScopeId reserved_scope = 0;
    uint64_t reserved_at_peak = 0;  ///< when most was in use
    uint64_t largest_idle_at_peak = 0;
    uint64_t told = 0;            ///< events with the allocator's own totals
    uint64_t contradictions = 0;  ///< of these, how many say other than our sums
    uint64_t lost_bytes = 0;      ///< handed out in memory that was freed under it
    // Used before and never used; each in no device's sum and in its device's.
    std::array<std::array<GroupId, 2>, 2> idle{{{kNoGroup, kNoGroup}, {kNoGroup, kNoGroup}}};
    UsedRanges used;
    bool at_peak = false;  // nothing has changed since the last new maximum
    // Blocks that are part of the arena's memory, begin and end: they never overlap.
    std::map<uint64_t, uint64_t> placed;

    /// Also where those that came after it have turned out to be in another place.
    bool is_unused() const { return place == kNowhere && alloc_count == 0 && failed_count == 0; }
  };
  /// In which context a block was handed out.
  struct Cause {
    uint32_t phase = 0;  ///< PhaseTree's
    uint32_t tag = 0;    ///< Replay::name() of what the program said that it is for; 0: nothing
    auto operator<=>(const Cause&) const = default;
  };
  enum class What : uint8_t { kInUse, kIdle, kOutside };
  /// Who holds bytes. In use: what the arena called the block or, if nothing, where it was handed
  /// out. Outside of all arenas: a group of Replay's.
  struct Holder {
    What what = What::kInUse;
    size_t arena = 0;
    uint32_t name = 0;
    uint32_t stack = 0;
    Cause cause{};
    GroupId outside = kNoGroup;
    int32_t device = -1;      ///< of what is outside
    bool never_used = false;  ///< idle, and in no block so far
  };
  /// One arena at one instant.
  struct Level {
    uint64_t in_use = 0, reserved = 0;
    uint64_t idle() const { return reserved - in_use; }
  };

  // Rows, in the order of their first creation.
  std::vector<Arena>& arenas() { return arenas_; }
  const std::vector<Arena>& arenas() const { return arenas_; }
  size_t row_for(uint32_t name, int32_t place);
  /// The row for blocks of `row`'s arenas that lie in `place`. A row that has not had any block yet
  /// moves there.
  size_t row_in(size_t row, int32_t place);
  Level level(size_t row) const;

  // Groups.
  GroupId outside_group(GroupId group, int32_t device);
  /// `counted`: in its device's sum.
  GroupId idle_group(size_t row, bool counted) { return idle_group(row, counted, false); }
  GroupId never_used_group(size_t row, bool counted) { return idle_group(row, counted, true); }
  GroupId use_group(size_t row, bool counted, uint32_t name, uint32_t stack, const Cause& cause);
  /// Of each group of peaks().
  const std::vector<Holder>& holders() const { return holders_; }

  // One step.
  void change(GroupId group, int64_t bytes, int16_t count = 0, bool allocates = false);
  /// `claims`: memory only goes from one holder to another.
  void apply(uint64_t ticks, bool claims = false);
  /// What is idle in one piece is known only by looking at all blocks, so it is not asked for at
  /// each new maximum: ArenaTable calls this before a row changes in a way that makes none.
  template <typename LargestIdle>
  void before_change(size_t row, LargestIdle largest_idle) {
    Arena& arena = arenas_[row];
    if (!arena.at_peak) return;
    arena.at_peak = false;
    arena.largest_idle_at_peak = largest_idle(row);
  }
  void finish() { peaks_.finish(); }

  const PeakFinder& peaks() const { return peaks_; }
  /// What the driver has handed out of a device, split by holders; nullptr: nothing ever.
  const ScopeId* device_scope(int32_t device) const;
  /// What all arenas have in use of a device's memory; kAllDevices: of all. nullptr: there are
  /// none.
  const ScopeId* in_arenas_scope(int32_t device) const;

 private:
  static constexpr size_t kMostRows = 1000;  ///< arenas that come later share the last one's

  struct UseKey {
    size_t row;
    bool counted;
    uint32_t name, stack;
    Cause cause{};
    auto operator<=>(const UseKey&) const = default;
  };

  ScopeId scope_in(std::map<int32_t, ScopeId>& scopes, int32_t device);
  GroupId idle_group(size_t row, bool counted, bool never_used);

  PeakFinder peaks_;
  std::vector<Arena> arenas_;
  std::map<std::pair<uint32_t, int32_t>, size_t> by_name_;
  std::vector<Holder> holders_;
  std::map<UseKey, GroupId> use_groups_;
  std::unordered_map<GroupId, GroupId> outside_groups_;          // by Replay's
  std::map<int32_t, ScopeId> driver_scopes_, in_arenas_scopes_;  // by device
  std::vector<PeakFinder::Change> changes_;
};

}  // namespace gpupeak::collector
