#include "collector/replay/peak_finder.h"

#include <algorithm>
#include <stdexcept>

namespace gpupeak::collector {

ScopeId PeakFinder::add_scope() {
  if (scopes_.size() > UINT16_MAX) throw std::logic_error("peak_finder: too many scopes");
  scopes_.emplace_back();
  return static_cast<ScopeId>(scopes_.size() - 1);
}

GroupId PeakFinder::add_group(std::span<const ScopeId> scopes, OwnerId owner) {
  if (scopes.size() > kMaxScopesOfGroup) throw std::logic_error("peak_finder: too many scopes");
  const ScopeList list(scopes.begin(), scopes.end());
  const auto known = std::find(scope_lists_.begin(), scope_lists_.end(), list);
  Group& group = groups_.emplace_back();
  group.owner = owner;
  if (owner >= owned_.size()) owned_.resize(owner + 1);
  group.scope_list = static_cast<uint32_t>(known - scope_lists_.begin());
  if (known == scope_lists_.end()) scope_lists_.push_back(list);
  group.folded = peaks_ended_;
  auto& at_peak = at_peaks_.emplace_back();
  for (size_t i = 0; i < list.size(); ++i) {
    at_peak[i].number = scopes_[list[i]].number;  // it held nothing at the peak
  }
  return static_cast<GroupId>(groups_.size() - 1);
}

void PeakFinder::apply(std::span<const Change> changes, uint64_t ticks, bool keeps_maximum) {
  touched_.clear();
  GroupId last_allocating = kNoGroup;
  uint64_t last_bytes = 0;
  for (const Change& change : changes) {
    for (const ScopeId id : scopes_of(groups_[change.group])) {
      Scope& scope = scopes_[id];
      scope.step = static_cast<int64_t>(static_cast<uint64_t>(scope.step) +
                                        static_cast<uint64_t>(change.bytes));
      if (!scope.touched) touched_.push_back(id);
      scope.touched = true;
    }
    if (change.allocates) {
      last_allocating = change.group;
      last_bytes = static_cast<uint64_t>(change.bytes);
    }
  }
  for (const ScopeId id : touched_) {
    Scope& scope = scopes_[id];
    scope.current += static_cast<uint64_t>(scope.step);
    if (scope.step > 0 && scope.current > scope.peak) {
      raise(scope, last_allocating, last_bytes, ticks);
    } else if (scope.step != 0 || !keeps_maximum) {
      end_maximum(scope);
    }
    if (scope.current > scope.recent_max) scope.recent_max = scope.current;
    scope.step = 0;
    scope.touched = false;
  }
  for (const Change& change : changes) {
    Group& group = groups_[change.group];
    fold(change.group);
    group.live_bytes += static_cast<uint64_t>(change.bytes);
    group.live_count += static_cast<uint32_t>(change.count);
    Owned& owned = owned_[group.owner];
    owned.live_bytes += static_cast<uint64_t>(change.bytes);
    owned.alloc_count += change.allocates;
    if (change.allocates) {
      group.alloc_bytes += static_cast<uint64_t>(change.bytes);
      ++group.alloc_count;
    }
  }
  for (const Change& change : changes) {
    Group& group = groups_[change.group];
    if (group.live_bytes > group.max_live_bytes) group.max_live_bytes = group.live_bytes;
  }
}

void PeakFinder::note_at_peaks(GroupId id) {
  Group& group = groups_[id];
  const ScopeList& list = scopes_of(group);
  for (size_t i = 0; i < list.size(); ++i) {
    AtPeak& stored = at_peaks_[id][i];
    const uint32_t number = scopes_[list[i]].number;
    if (stored.number != number) stored = {group.live_bytes, group.live_count, number};
  }
  group.folded = peaks_ended_;
}

void PeakFinder::finish() {
  for (Scope& scope : scopes_) end_maximum(scope);
  std::vector<uint64_t> sums(scopes_.size());
  for (GroupId id = 0; id < groups_.size(); ++id) {
    fold(id);
    const ScopeList& list = scopes_of(groups_[id]);
    for (size_t i = 0; i < list.size(); ++i) sums[list[i]] += at_peaks_[id][i].bytes;
  }
  for (size_t i = 0; i < scopes_.size(); ++i) {
    if (sums[i] != scopes_[i].peak) {
      throw std::logic_error("peak_finder: holders do not add up to the peak");
    }
  }
}

uint64_t PeakFinder::take_recent_max(ScopeId id) {
  Scope& scope = scopes_[id];
  const uint64_t recent = scope.recent_max;
  scope.recent_max = scope.current;
  return recent;
}

PeakFinder::AtPeak PeakFinder::at_peak(GroupId id, ScopeId scope) const {
  const ScopeList& list = scopes_of(groups_[id]);
  for (size_t i = 0; i < list.size(); ++i) {
    if (list[i] == scope) return at_peaks_[id][i];
  }
  return {};
}

}  // namespace gpupeak::collector
