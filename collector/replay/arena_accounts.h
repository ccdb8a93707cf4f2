// The rows and sums of arenas: one row for all arenas of a name in a place, and for each piece of
// memory the group that holds it: in use by a name or a stack, idle in a row, or outside of all.
// What changes at once is gathered and applied as one step. ArenaTable drives it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/replay/peak_finder.h"
#include "collector/replay/used_ranges.h"

namespace gpupeak::collector {

/// Who holds memory that arenas share out, as an index of ArenaAccounts::holders(). A type of its
/// own, since a GroupId is a group of Replay's.
enum class HolderId : uint32_t {};
inline constexpr HolderId kNoHolder{UINT32_MAX};
/// A part of a block that is in use.
struct PartOfBlock {
  uint64_t address = 0, bytes = 0;
  HolderId holder = kNoHolder;
};
/// Of ArenaAccounts::peaks(), whose groups are the holders in their order.
constexpr GroupId as_group(HolderId holder) {
  return GroupId(static_cast<uint32_t>(holder));
}
constexpr HolderId as_holder(GroupId group) {
  return HolderId{static_cast<uint32_t>(group)};
}

class ArenaAccounts {
 public:
  /// Where memory lies: a device's ordinal or one of these.
  static constexpr int32_t kHost = -1;
  static constexpr int32_t kNowhere = -2;  ///< in no block that the log knows
  static constexpr int32_t kAllDevices = -1;

  /// Where idle memory lies. The log does not tell of which stream a block is.
  enum class IdleIn : uint8_t {
    kSegment,  ///< in a segment all of which is idle, or a part of what an arena said is its own
    kHole,     ///< beside blocks in use of the same segment
    kGraph,    ///< in a segment that is kept for a CUDA graph
  };
  static constexpr size_t kIdleIns = 3;
  using IdleHolders = std::array<std::array<std::array<HolderId, 2>, 2>, kIdleIns>;
  static constexpr IdleHolders no_idle_holders() {
    IdleHolders all{};
    for (auto& in : all) in = {{{kNoHolder, kNoHolder}, {kNoHolder, kNoHolder}}};
    return all;
  }

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
    ScopeId scope{};                                  ///< in use
    ScopeId reserved_scope{};
    uint64_t reserved_at_peak = 0;  ///< when most was in use
    uint64_t largest_idle_at_peak = 0;
    uint64_t told = 0;            ///< events with the allocator's own totals
    uint64_t contradictions = 0;  ///< of these, how many say other than our sums
    uint64_t lost_bytes = 0;      ///< handed out in memory that was freed under it
    // By IdleIn: used before and never used; each in no device's sum and in its device's.
    IdleHolders idle = no_idle_holders();
    UsedRanges used;
    bool at_peak = false;  // nothing has changed since the last new maximum
    // Blocks that are part of the arena's memory, begin and end: they never overlap.
    std::map<uint64_t, uint64_t> placed;
    /// Of an attached program: it had handed out blocks before, or memory in which it still does,
    /// so that what it has reserved is not known.
    bool has_older = false;

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
    int32_t device = -1;                ///< of what is outside
    bool never_used = false;            ///< idle, and in no block so far
    bool counted = true;                ///< in its device's sum
    IdleIn idle_in = IdleIn::kSegment;  ///< of what is idle
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
  /// moves there; of an attached program also one whose blocks lay in memory from before.
  size_t row_in(size_t row, int32_t place);
  Level level(size_t row) const;

  // Holders.
  HolderId outside(GroupId group, int32_t device);
  /// `counted`: in its device's sum.
  HolderId idle(size_t row, bool counted, IdleIn in) { return idle(row, counted, in, false); }
  HolderId never_used(size_t row, bool counted, IdleIn in) { return idle(row, counted, in, true); }
  HolderId user(size_t row, bool counted, uint32_t name, uint32_t stack, const Cause& cause);
  /// In the order of peaks()'s groups.
  const std::vector<Holder>& holders() const { return holders_; }
  const Holder& holder(HolderId id) const { return holders_[static_cast<size_t>(id)]; }
  uint64_t live_bytes(HolderId id) const { return peaks_.group(as_group(id)).live_bytes; }

  // One step.
  void change(HolderId holder, int64_t bytes, int16_t count = 0, bool allocates = false);
  /// What apply() will apply.
  std::span<const PeakFinder::Change> step() const { return changes_; }
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
  /// Whether it counts into device_scope(device).
  bool is_of_device(HolderId id, int32_t device) const {
    const Holder& held = holder(id);
    const int32_t of = held.what == What::kOutside ? held.device : arenas_[held.arena].place;
    return held.counted && of == device;
  }
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
  HolderId idle(size_t row, bool counted, IdleIn in, bool never_used);
  /// It counts into these scopes.
  template <size_t kScopes>
  HolderId add(const Holder& holder, const std::array<ScopeId, kScopes>& scopes) {
    holders_.push_back(holder);
    return as_holder(peaks_.add_group(scopes));
  }

  PeakFinder peaks_;
  std::vector<Arena> arenas_;
  std::map<std::pair<uint32_t, int32_t>, size_t> by_name_;
  std::vector<Holder> holders_;
  std::map<UseKey, HolderId> users_;
  std::unordered_map<GroupId, HolderId> outside_;                // by Replay's group
  std::map<int32_t, ScopeId> driver_scopes_, in_arenas_scopes_;  // by device
  std::vector<PeakFinder::Change> changes_;
};

}  // namespace gpupeak::collector
