// Exact high-water marks, and who held the bytes then, in one pass. A group is what holders are
// told apart by (site_table.h makes them), a scope is a sum that has a peak (a device, the host, a
// kind …); every group counts into a fixed list of scopes. Replay drives it, the summary reads it.
//
// How: a scope numbers its peaks. While the sum stands at a new maximum, what each group holds now
// is what it holds at the peak, and nothing need be stored. The first change that makes no new
// maximum ends that state and raises the number; from then on a group stores what it holds just
// before it changes for the first time under this number. O(1) an event, memory O(groups). Of equal
// maxima the first one wins. Two groups in one scope; what a group has stored is shown with the
// number that it was stored under:
//
//   change    sum  peak  number   A holds  stored     B holds  stored
//   A +100    100   100       0       100  –                0  –
//   B  +50    150   150       0       100  –               50  –
//   A  -40    110   150       1        60  100 (1)         50  –         B changes nothing: no work
//   B +130    240   240       1        60  100 (1)        180   50 (1)
//   A  -60    180   240       2         0   60 (2)        180   50 (1)
//   finish          240       2         0   60 (2)        180  180 (2)   60 + 180 = 240
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "collector/replay/prefetch.h"

namespace gpupeak::collector {

using GroupId = uint32_t;
using ScopeId = uint16_t;
using OwnerId = uint32_t;  ///< whatever the caller wants a plain sum for; small numbers
inline constexpr GroupId kNoGroup = UINT32_MAX;

class PeakFinder {
 public:
  static constexpr size_t kMaxScopesOfGroup = 5;

  struct Scope {
    uint64_t current = 0;  ///< bytes
    uint64_t peak = 0;     ///< bytes
    uint64_t peak_ticks = 0;
    GroupId peak_group = kNoGroup;  ///< the group whose allocation made the peak
    uint64_t peak_step_bytes = 0;   ///< what that allocation added
    uint64_t recent_max = 0;        ///< since the last take_recent_max()
    int64_t step = 0;               // of the change under way
    uint32_t number = 0;            // of the peak
    bool at_maximum = false;        // nothing has changed since the last new maximum
    bool touched = false;           // listed in touched_
  };
  struct AtPeak {
    uint64_t bytes = 0;
    uint32_t count = 0;
    uint32_t number = 0;
  };
  /// What the groups of one owner hold and have allocated.
  struct Owned {
    uint64_t live_bytes = 0;
    uint64_t alloc_count = 0;
  };
  /// One cache line: every event touches one at random.
  struct alignas(64) Group {
    uint64_t live_bytes = 0;
    uint64_t max_live_bytes = 0;
    uint64_t alloc_bytes = 0;
    uint64_t alloc_count = 0;
    uint64_t folded = 0;  // peaks_ended_ when what it held at the peaks was last noted
    uint32_t live_count = 0;
    uint32_t scope_list = 0;  // index into scope_lists_
    OwnerId owner = 0;
  };
  /// One part of a change that happens in one step.
  struct Change {
    GroupId group;
    int64_t bytes;
    int32_t count;
    bool allocates;  ///< counts as an allocation of its group
  };

  ScopeId add_scope();
  /// At most kMaxScopesOfGroup scopes.
  GroupId add_group(std::span<const ScopeId> scopes, OwnerId owner = 0);

  void prefetch(GroupId group) const { prefetch_line(&groups_[group]); }
  void add(GroupId group, uint64_t bytes, uint64_t ticks);
  void remove(GroupId group, uint64_t bytes);
  /// All of `changes` at one instant: neither a dip nor double counting in between.
  void apply(std::span<const Change> changes, uint64_t ticks) { apply(changes, ticks, false); }
  /// The same where bytes get another holder: a sum that this leaves as it is, and which stands at
  /// its maximum, goes on standing there, with the new holders.
  void regroup(std::span<const Change> changes, uint64_t ticks) { apply(changes, ticks, true); }
  /// After the last change. Throws std::logic_error if the holders of a scope do not add up to its
  /// peak.
  void finish();

  /// The scope's maximum since the last call.
  uint64_t take_recent_max(ScopeId scope);

  const Scope& scope(ScopeId id) const { return scopes_[id]; }
  size_t scope_count() const { return scopes_.size(); }
  const Group& group(GroupId id) const { return groups_[id]; }
  size_t group_count() const { return groups_.size(); }
  /// By OwnerId.
  std::span<const Owned> owned() const { return owned_; }
  /// What `group` held at the peak of `scope`; nothing if it does not count into it. After
  /// finish().
  AtPeak at_peak(GroupId group, ScopeId scope) const;

 private:
  using ScopeList = std::vector<ScopeId>;

  void apply(std::span<const Change> changes, uint64_t ticks, bool keeps_maximum);
  const ScopeList& scopes_of(const Group& group) const { return scope_lists_[group.scope_list]; }
  void end_maximum(Scope& scope) {
    scope.number += scope.at_maximum;
    peaks_ended_ += scope.at_maximum;
    scope.at_maximum = false;
  }
  /// Before the group changes.
  void fold(GroupId id) {
    if (groups_[id].folded != peaks_ended_) note_at_peaks(id);
  }
  void note_at_peaks(GroupId id);
  static void raise(Scope& scope, GroupId group, uint64_t bytes, uint64_t ticks);

  std::vector<Scope> scopes_;
  std::vector<ScopeList> scope_lists_;
  std::vector<Group> groups_;
  // By group, beside its list; final after finish().
  std::vector<std::array<AtPeak, kMaxScopesOfGroup>> at_peaks_;
  uint64_t peaks_ended_ = 0;  // of all scopes
  std::vector<Owned> owned_;
  std::vector<ScopeId> touched_;
};

inline void PeakFinder::raise(Scope& scope, GroupId group, uint64_t bytes, uint64_t ticks) {
  scope.peak = scope.current;
  scope.peak_ticks = ticks;
  scope.peak_group = group;
  scope.peak_step_bytes = bytes;
  scope.at_maximum = true;
}

inline void PeakFinder::add(GroupId id, uint64_t bytes, uint64_t ticks) {
  Group& group = groups_[id];
  for (const ScopeId scope_id : scopes_of(group)) {
    Scope& scope = scopes_[scope_id];
    scope.current += bytes;
    if (scope.current > scope.peak) {
      raise(scope, id, bytes, ticks);
    } else {
      end_maximum(scope);
    }
    if (scope.current > scope.recent_max) scope.recent_max = scope.current;
  }
  fold(id);
  group.live_bytes += bytes;
  ++group.live_count;
  group.alloc_bytes += bytes;
  ++group.alloc_count;
  if (group.live_bytes > group.max_live_bytes) group.max_live_bytes = group.live_bytes;
  Owned& owned = owned_[group.owner];
  owned.live_bytes += bytes;
  ++owned.alloc_count;
}

inline void PeakFinder::remove(GroupId id, uint64_t bytes) {
  Group& group = groups_[id];
  for (const ScopeId scope_id : scopes_of(group)) {
    Scope& scope = scopes_[scope_id];
    end_maximum(scope);
    scope.current -= bytes;
  }
  fold(id);
  group.live_bytes -= bytes;
  --group.live_count;
  owned_[group.owner].live_bytes -= bytes;
}

}  // namespace gpupeak::collector
