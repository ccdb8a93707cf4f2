// Finds exact peaks, and who held the bytes then, in one pass. Holders are told apart by groups
// (live_memory.h makes them). A scope is a sum that has a peak (a device, the host, a kind …).
// Every group counts into a fixed list of scopes. Replay calls it, the summary reads it.
//
// How it works: the ends of peaks are numbered, and a scope keeps the number of its last one. While
// the sum is at a new maximum, what each group holds now is what it holds at the peak, so nothing
// is stored. The first change that makes no new maximum ends that state. From then on a group
// stores what it holds just before it changes for the first time since. That is O(1) for an event,
// and memory O(groups). Of equal maxima the first one wins. An example with two groups in one
// scope; (n) after a stored value is the number of the last end when it was stored:
//
//   change    sum  peak  end      A holds  stored     B holds  stored
//   A +100    100   100    0          100  –                0  –
//   B  +50    150   150    0          100  –               50  –
//   A  -40    110   150    1           60  100 (1)         50  –         B changes nothing: no work
//   B +130    240   240    1           60  100 (1)        180   50 (1)
//   A  -60    180   240    2            0   60 (2)        180   50 (1)
//   finish          240    2            0   60 (2)        180  180 (2)   60 + 180 = 240
//
// Most changes in a row are of groups that count into the same scopes, the heap's, and make no new
// maximum. Such a run is added up in one sum for all of its scopes, which get it when somebody
// reads them.
//
// Heap blocks come and go by their numbers. Whoever counts finds their groups (group_accounts.h);
// they are not known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "collector/replay/big_arrays.h"
#include "collector/replay/group_accounts.h"

namespace gpupeak::collector {

/// What one group holds, or contributes to a table.
struct Contribution {
  GroupId group;
  uint64_t bytes;
  uint64_t count;
};

/// Anything for which the caller wants a plain sum; small numbers.
using OwnerId = Index<struct OfOwners>;

class PeakFinder {
 public:
  struct Scope {
    uint64_t current = 0;  ///< bytes
    uint64_t peak = 0;     ///< bytes
    uint64_t peak_ticks = 0;
    /// Whose allocation made the peak; if it was a heap block: after finish().
    GroupId peak_group = kNoGroup;
    uint64_t peak_step_bytes = 0;   ///< what that allocation added
    uint64_t recent_max = 0;        ///< since the last take_recent_max()
    std::optional<Site> peak_site;  // the site, if a heap block made the peak
    int64_t step = 0;               // what the current change adds
    bool at_maximum = false;        // nothing has changed since the last new maximum
    bool touched = false;           // it is in touched_
  };
  using AtPeak = GroupAccounts::AtPeak;
  using Group = GroupAccounts::Group;
  /// What the groups of one owner hold and have allocated.
  struct Owned {
    uint64_t live_bytes = 0;
    uint64_t alloc_count = 0;
  };
  /// How a group is counted. All groups of one context are counted alike.
  struct Counting {
    ScopeListId scopes{};
    OwnerId owner{};
  };
  /// A heap block that is allocated.
  struct NewBlock {
    BlockNumber number;
    uint64_t bytes;
    Site site;
    Counting counting;  ///< of its site's context
  };
  /// A heap block that is freed, as it was counted when it was allocated.
  struct OldBlock {
    BlockNumber number;
    uint64_t bytes;
    Counting counting;
  };
  /// One part of a change that happens in one step.
  struct Change {
    GroupId group;
    int64_t bytes;
    int16_t count;
    bool allocates;  ///< counts as an allocation of its group
  };

  ScopeId add_scope();
  /// The list of these scopes, at most kMaxScopesOfGroup. Equal lists have one id.
  ScopeListId scope_list(std::span<const ScopeId> scopes);
  GroupId add_group(std::span<const ScopeId> scopes);
  /// Adds the next context. Its sites are counted as `counting` says.
  void add_context(Counting counting);
  /// The group of a site, found at once. That takes long for a new one.
  GroupId group_of(const Site& site, Counting counting);
  /// Call it before the first block if add() must return the block's group.
  void find_groups_at_once() { accounts_.find_at_once(); }

  void add(GroupId group, uint64_t bytes, uint64_t ticks);
  void remove(GroupId group, uint64_t bytes);
  /// These three return the groups of the blocks if groups are found at once, else kNoGroup.
  GroupId add(const NewBlock& block, uint64_t ticks);
  /// `temporary`: it also counts as a temporary block.
  GroupId remove(const OldBlock& block, bool temporary = false);
  /// Replaces one block by another, in one step.
  struct Pair {
    GroupId old_group, new_group;
  };
  Pair replace(const OldBlock& old_block, const NewBlock& new_block, uint64_t ticks);
  /// Counts a temporary block of a group, where that is known only after its free.
  void note_temporary(GroupId group) { accounts_.note({0, group, 0, GroupAccounts::kTemporary}); }
  /// Applies all changes at one instant, so that there is no dip and no double counting in between.
  void apply(std::span<const Change> changes, uint64_t ticks) { apply(changes, ticks, false); }
  /// The same for bytes that only get another holder. A sum that does not change and is at its
  /// maximum stays there, with the new holders.
  void regroup(std::span<const Change> changes, uint64_t ticks) { apply(changes, ticks, true); }
  /// Call it after the last change. Throws std::logic_error if the holders of a scope do not add up
  /// to its peak.
  void finish();

  /// The scope's maximum since the last call.
  uint64_t take_recent_max(ScopeId scope);

  const Scope& scope(ScopeId id) const {
    settle();
    return scopes_[id];
  }
  size_t scope_count() const { return scopes_.size(); }
  const Group& group(GroupId id) const { return accounts_.group(id); }
  size_t group_count() const { return accounts_.group_count(); }
  /// The groups that are sites'.
  const SiteGroups& sites() const { return accounts_.sites(); }
  bool finds_groups_at_once() const { return accounts_.finds_at_once(); }
  /// By OwnerId.
  std::span<const Owned> owned() const { return owned_; }
  /// What `group` held at the peak of `scope`; nothing if it does not count into it. Call it after
  /// finish().
  AtPeak at_peak(GroupId group, ScopeId scope) const { return accounts_.at_peak(group, scope); }

  /// Calls visit(GroupId, const AtPeak&) for each group that held bytes at that peak, by number: at
  /// most most_at_peak() of them. Call it after finish().
  template <class Visit>
  void visit_at_peak(ScopeId scope, const Visit& visit) const {
    accounts_.visit_at_peak(scope, visit);
  }
  size_t most_at_peak() const { return accounts_.most_at_peak(); }

 private:
  static constexpr ScopeListId kNoList{UINT32_MAX};
  /// What the scopes of one list do not have yet.
  struct Run {
    ScopeListId list = kNoList;
    bool at_maximum = false;  // one of the scopes is at its maximum
    int64_t sum = 0;
    int64_t largest = 0;
    int64_t room = 0;  // a larger sum is a new maximum of one of the scopes
  };

  void set_counting(GroupId group, Counting counting);
  void apply(std::span<const Change> changes, uint64_t ticks, bool keeps_maximum);
  void end_maximum(ScopeId id) {
    Scope& scope = scopes_[id];
    if (!scope.at_maximum) return;
    accounts_.note({0, id, 0, GroupAccounts::kPeakEnds});
    scope.at_maximum = false;
  }
  /// Ends the current run, if there is one.
  void settle() const {
    if (run_.list != kNoList) tell_scopes();
  }
  void tell_scopes() const;
  void begin_run(ScopeListId list) const;
  void end_maxima_of_run();
  /// An allocation: who, how much, when.
  struct Step {
    GroupId group;
    std::optional<Site> site;
    uint64_t bytes;
    uint64_t ticks;
  };
  static void raise(Scope& scope, const Step& step);
  void grow(Counting counting, uint64_t by, const Step& step);
  void grow_beyond_run(uint64_t by, const Step& step);
  void shrink(Counting counting, uint64_t by);

  // Reading first settles the current run. That changes nothing else that a reader can see.
  mutable std::vector<Scope> scopes_;
  mutable Run run_;
  mutable GroupAccounts accounts_;
  std::vector<ScopeList> scope_lists_;
  ChunkedArray<Counting> countings_;  // by group, for changes that name their group
  std::vector<Owned> owned_;
  std::vector<ScopeId> touched_;
};

inline void PeakFinder::raise(Scope& scope, const Step& step) {
  scope.peak = scope.current;
  scope.peak_ticks = step.ticks;
  scope.peak_group = step.group;
  scope.peak_site = step.site;
  scope.peak_step_bytes = step.bytes;
  scope.at_maximum = true;
}

/// Adds `by` to the sums of a list.
inline void PeakFinder::grow(Counting counting, uint64_t by, const Step& step) {
  if (run_.list != counting.scopes) [[unlikely]]
    begin_run(counting.scopes);
  const int64_t sum = run_.sum + static_cast<int64_t>(by);
  if (sum > run_.room) return grow_beyond_run(by, step);
  run_.sum = sum;
  if (run_.at_maximum) end_maxima_of_run();
  if (sum > run_.largest) run_.largest = sum;
}

inline void PeakFinder::shrink(Counting counting, uint64_t by) {
  if (run_.list != counting.scopes) [[unlikely]]
    begin_run(counting.scopes);
  if (run_.at_maximum) end_maxima_of_run();
  run_.sum -= static_cast<int64_t>(by);
}

inline GroupId PeakFinder::add(const NewBlock& block, uint64_t ticks) {
  grow(block.counting, block.bytes, {kNoGroup, block.site, block.bytes, ticks});
  Owned& owned = owned_[block.counting.owner];
  owned.live_bytes += block.bytes;
  ++owned.alloc_count;
  return accounts_.begin_block(block.site, block.counting.scopes, block.number, block.bytes);
}

inline GroupId PeakFinder::remove(const OldBlock& block, bool temporary) {
  shrink(block.counting, block.bytes);
  owned_[block.counting.owner].live_bytes -= block.bytes;
  return accounts_.end_block(block.number, block.bytes, temporary);
}

}  // namespace gpupeak::collector
