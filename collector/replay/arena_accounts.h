// Keeps the rows and sums of arenas. A row stands for all arenas of one name in one place. Each
// piece of memory has a holder: a name or a stack that uses it, a row in which it is idle, or
// somebody outside of all arenas. Changes that happen at once are gathered and applied as one step.
// It is the part of ArenaTable that knows no addresses.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/replay/peak_finder.h"

namespace gpupeak::collector {

// Which bytes of some addresses blocks have used so far. Ranges that touch become one, so there are
// no more of them than gaps between used bytes.
//
//   add(10, 20) = 10    add(15, 30) = 10    remove(0, 12) = 2    {12..30}

class UsedRanges {
 public:
  /// Adds the bytes [begin, end). Returns how many were not there.
  uint64_t add(uint64_t begin, uint64_t end);
  /// Removes the bytes [begin, end). Returns how many were there.
  uint64_t remove(uint64_t begin, uint64_t end);

 private:
  std::map<uint64_t, uint64_t> ranges_;  // begin to end; neither overlap nor touch
};

/// Who holds memory that arenas share out, as an index of ArenaAccounts::holders(). A type of its
/// own, since a GroupId is a group of Replay's.
enum class HolderId : uint32_t {};
inline constexpr HolderId kNoHolder{UINT32_MAX};
/// A part of a block that is in use.
struct PartOfBlock {
  uint64_t address = 0, bytes = 0;
  HolderId holder = kNoHolder;
};
/// The holder's group in ArenaAccounts::peaks(): holders and groups have the same numbers.
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
    uint64_t count = 0;           ///< how many were created
    uint64_t capacity_bytes = 0;  ///< of the live arenas that said how large they are
    uint64_t largest_capacity_bytes = 0;
    uint64_t alloc_count = 0;
    uint64_t failed_count = 0;                        ///< refused requests
    uint64_t largest_block = 0, largest_refused = 0;  ///< in bytes; 0: none
    ScopeId scope{};                                  ///< in use
    ScopeId reserved_scope{};
    uint64_t reserved_at_peak = 0;  ///< when most was in use
    uint64_t largest_idle_at_peak = 0;
    uint64_t told = 0;            ///< events with the allocator's own totals
    uint64_t contradictions = 0;  ///< of these, how many say other than our sums
    uint64_t lost_bytes = 0;      ///< of blocks whose memory was freed while they were in use
    // By IdleIn; then: used before, never used; then: not in its device's sum, in it.
    IdleHolders idle = no_idle_holders();
    UsedRanges used;
    bool at_peak = false;  // nothing has changed since the last new maximum
    // Blocks that are part of the arena's memory, begin and end: they never overlap.
    std::map<uint64_t, uint64_t> placed;
    /// Of an attached program: it had handed out blocks before the attach, or still does from
    /// memory of that time. So what it has reserved is not known.
    bool has_older = false;

    /// Whether the row has had no block. It also stays so if the arenas that were created in it
    /// turned out to lie in another place.
    bool is_unused() const { return place == kNowhere && alloc_count == 0 && failed_count == 0; }
  };
  /// In which context a block was handed out.
  struct Cause {
    uint32_t phase = 0;  ///< PhaseTree's number
    /// Replay::name() of what the program says that the block is for; 0: it says nothing.
    uint32_t tag = 0;
    auto operator<=>(const Cause&) const = default;
  };
  enum class What : uint8_t { kInUse, kIdle, kOutside };
  /// Who holds bytes. In use: the name that the arena gave the block or, without one, the stack
  /// that asked for it. Outside of all arenas: a group of Replay's.
  struct Holder {
    What what = What::kInUse;
    size_t arena = 0;
    uint32_t name = 0;
    uint32_t stack = 0;
    Cause cause{};
    GroupId outside = kNoGroup;
    int32_t device = -1;                ///< of memory outside of arenas
    bool never_used = false;            ///< of idle memory: no block has used it so far
    bool counted = true;                ///< in its device's sum
    IdleIn idle_in = IdleIn::kSegment;  ///< of idle memory
  };
  /// One arena at one instant.
  struct Level {
    uint64_t in_use = 0, reserved = 0;
    uint64_t idle() const { return reserved - in_use; }
  };

  /// In the order of their first creation.
  const std::vector<Arena>& arenas() const { return arenas_; }
  Level level(size_t arena) const;
  /// By HolderId.
  const std::vector<Holder>& holders() const { return holders_; }
  const Holder& holder(HolderId id) const { return holders_[static_cast<size_t>(id)]; }
  uint64_t live_bytes(HolderId id) const { return peaks_.group(as_group(id)).live_bytes; }

  const PeakFinder& peaks() const { return peaks_; }
  /// The sum of what the driver has handed out of a device, by holders. nullptr: it never handed
  /// out anything.
  const ScopeId* device_scope(int32_t device) const;
  /// Whether the holder counts into device_scope(device).
  bool is_of_device(HolderId id, int32_t device) const {
    const Holder& held = holder(id);
    const int32_t of = held.what == What::kOutside ? held.device : arenas_[held.arena].place;
    return held.counted && of == device;
  }
  /// The sum of what all arenas have in use of a device's memory; kAllDevices: of all devices.
  /// nullptr: there are no such arenas.
  const ScopeId* in_arenas_scope(int32_t device) const;

 protected:
  size_t row_for(uint32_t name, int32_t place);
  /// The row for blocks of `row`'s arenas that lie in `place`. A row that has had no block yet
  /// moves to that place. So does a row of an attached program whose blocks lay in memory from
  /// before.
  size_t row_in(size_t row, int32_t place);

  HolderId outside(GroupId group, int32_t device);
  /// `counted`: in its device's sum.
  HolderId idle(size_t row, bool counted, IdleIn in) { return idle(row, counted, in, false); }
  HolderId never_used(size_t row, bool counted, IdleIn in) { return idle(row, counted, in, true); }
  HolderId user(size_t row, bool counted, uint32_t name, uint32_t stack, const Cause& cause);

  // One step.
  void change(HolderId holder, int64_t bytes, int16_t count = 0, bool allocates = false) {
    changes_.push_back({as_group(holder), bytes, count, allocates});
  }
  /// The changes that apply() will apply.
  std::span<const PeakFinder::Change> step() const { return changes_; }
  /// Applies the changes as one step. `claims`: memory only goes from one holder to another, so
  /// that a peak stands (PeakFinder::regroup()).
  void apply(uint64_t ticks, bool claims = false);
  void finish() { peaks_.finish(); }

  std::vector<Arena> arenas_;

 private:
  static constexpr size_t kMostRows = 1000;  ///< arenas that come later share the last row

  struct UseKey {
    size_t row;
    bool counted;
    uint32_t name, stack;
    Cause cause{};
    auto operator<=>(const UseKey&) const = default;
  };

  ScopeId scope_in(std::map<int32_t, ScopeId>& scopes, int32_t device);
  HolderId idle(size_t row, bool counted, IdleIn in, bool never_used);
  /// Adds a holder that counts into these scopes.
  template <size_t kScopes>
  HolderId add(const Holder& holder, const std::array<ScopeId, kScopes>& scopes) {
    holders_.push_back(holder);
    return as_holder(peaks_.add_group(scopes));
  }

  PeakFinder peaks_;
  std::map<std::pair<uint32_t, int32_t>, size_t> by_name_;
  std::vector<Holder> holders_;
  std::map<UseKey, HolderId> users_;
  std::unordered_map<GroupId, HolderId> outside_;                // by Replay's group
  std::map<int32_t, ScopeId> driver_scopes_, in_arenas_scopes_;  // by device
  std::vector<PeakFinder::Change> changes_;
};

}  // namespace gpupeak::collector
