#include "collector/replay/peak_finder.h"

#include <algorithm>
#include <stdexcept>

namespace gpupeak::collector {

ScopeId PeakFinder::add_scope() {
  if (scopes_.size() > UINT16_MAX) throw std::logic_error("peak_finder: too many scopes");
  scopes_.emplace_back();
  accounts_.add_scope();
  return static_cast<ScopeId>(scopes_.size() - 1);
}

ScopeListId PeakFinder::scope_list(std::span<const ScopeId> scopes) {
  if (scopes.size() > kMaxScopesOfGroup) throw std::logic_error("peak_finder: too many scopes");
  ScopeList list;
  list.count = static_cast<uint32_t>(scopes.size());
  std::copy(scopes.begin(), scopes.end(), list.ids.begin());
  const auto known = std::ranges::find(scope_lists_, list);
  const auto id = static_cast<ScopeListId>(known - scope_lists_.begin());
  if (known == scope_lists_.end()) {
    scope_lists_.push_back(list);
    accounts_.add_scope_list(list);
  }
  return id;
}

void PeakFinder::set_counting(GroupId group, Counting counting) {
  if (counting.owner >= owned_.size()) owned_.resize(counting.owner + 1);
  if (group >= countings_.size()) countings_.grow(group + 1);
  countings_[group] = counting;
}

GroupId PeakFinder::add_group(std::span<const ScopeId> scopes) {
  const auto id = static_cast<GroupId>(countings_.size());
  const ScopeListId list = scope_list(scopes);
  set_counting(id, {list, OwnerId{}});
  accounts_.add_group(list);
  return id;
}

void PeakFinder::add_context(Counting counting) {
  if (counting.owner >= owned_.size()) owned_.resize(counting.owner + 1);
  accounts_.add_context(counting.scopes);
}

GroupId PeakFinder::group_of(const Site& site, Counting counting) {
  const GroupId id = accounts_.group_of(site, counting.scopes);
  set_counting(id, counting);
  return id;
}

void PeakFinder::begin_run(ScopeListId list) const {
  settle();
  run_ = {};
  run_.list = list;
  run_.room = INT64_MAX;
  for (const ScopeId id : scope_lists_[list]) {
    const Scope& scope = scopes_[id];
    run_.at_maximum |= scope.at_maximum;
    // In damaged logs sums wrap around.
    const auto room = static_cast<int64_t>(scope.peak - scope.current);
    run_.room = std::min(run_.room, scope.current > scope.peak ? 0 : std::max<int64_t>(room, 0));
  }
}

void PeakFinder::tell_scopes() const {
  for (const ScopeId id : scope_lists_[run_.list]) {
    Scope& scope = scopes_[id];
    scope.recent_max =
        std::max(scope.recent_max, scope.current + static_cast<uint64_t>(run_.largest));
    scope.current += static_cast<uint64_t>(run_.sum);
  }
  run_.list = kNoList;
}

void PeakFinder::end_maxima_of_run() {
  for (const ScopeId id : scope_lists_[run_.list]) end_maximum(id);
  run_.at_maximum = false;
}

/// An allocation that gives one of the run's scopes a new maximum.
void PeakFinder::grow_beyond_run(uint64_t by, const Step& step) {
  const ScopeListId list = run_.list;
  settle();
  for (const ScopeId scope_id : scope_lists_[list]) {
    Scope& scope = scopes_[scope_id];
    scope.current += by;
    if (scope.current > scope.peak) {
      raise(scope, step);
    } else {
      end_maximum(scope_id);
    }
    if (scope.current > scope.recent_max) scope.recent_max = scope.current;
  }
  begin_run(list);
}

void PeakFinder::add(GroupId group, uint64_t bytes, uint64_t ticks) {
  const Counting counting = countings_[group];
  grow(counting, bytes, {group, {}, bytes, ticks});
  accounts_.note({bytes, group, +1, GroupAccounts::kAllocates | GroupAccounts::kSettles});
  Owned& owned = owned_[counting.owner];
  owned.live_bytes += bytes;
  ++owned.alloc_count;
}

void PeakFinder::remove(GroupId group, uint64_t bytes) {
  const Counting counting = countings_[group];
  shrink(counting, bytes);
  accounts_.note({-bytes, group, -1, 0});
  owned_[counting.owner].live_bytes -= bytes;
}

PeakFinder::Pair PeakFinder::replace(const OldBlock& old_block, const NewBlock& new_block,
                                     uint64_t ticks) {
  if (old_block.counting.scopes != new_block.counting.scopes)
    throw std::logic_error("peak_finder: one for another of other sums");
  const uint64_t old_bytes = old_block.bytes, new_bytes = new_block.bytes;
  if (new_bytes > old_bytes) {
    grow(new_block.counting, new_bytes - old_bytes, {kNoGroup, new_block.site, new_bytes, ticks});
  } else {
    shrink(new_block.counting, old_bytes - new_bytes);
  }
  owned_[old_block.counting.owner].live_bytes -= old_bytes;
  Owned& owned = owned_[new_block.counting.owner];
  owned.live_bytes += new_bytes;
  ++owned.alloc_count;
  const GroupId old_group = accounts_.end_block(old_block.number, old_bytes, false);
  return {old_group, accounts_.begin_block(new_block.site, new_block.counting.scopes,
                                           new_block.number, new_bytes)};
}

void PeakFinder::apply(std::span<const Change> changes, uint64_t ticks, bool keeps_maximum) {
  settle();
  touched_.clear();
  GroupId last_allocating = kNoGroup;
  uint64_t last_bytes = 0;
  for (const Change& change : changes) {
    for (const ScopeId id : scope_lists_[countings_[change.group].scopes]) {
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
      raise(scope, {last_allocating, {}, last_bytes, ticks});
    } else if (scope.step != 0 || !keeps_maximum) {
      end_maximum(id);
    }
    if (scope.current > scope.recent_max) scope.recent_max = scope.current;
    scope.step = 0;
    scope.touched = false;
  }
  // Between two parts of a step a group may hold bytes that it has at no time: these do not count.
  const bool apart =
      changes.size() == 1 || (changes.size() == 2 && changes[0].group != changes[1].group);
  for (const Change& change : changes) {
    const int flags =
        (change.allocates ? GroupAccounts::kAllocates : 0) | (apart ? GroupAccounts::kSettles : 0);
    accounts_.note({static_cast<uint64_t>(change.bytes), change.group, change.count,
                    static_cast<uint8_t>(flags)});
    Owned& owned = owned_[countings_[change.group].owner];
    owned.live_bytes += static_cast<uint64_t>(change.bytes);
    owned.alloc_count += change.allocates;
  }
  if (apart) return;
  for (const Change& change : changes)
    accounts_.note({0, change.group, 0, GroupAccounts::kSettles});
}

void PeakFinder::finish() {
  settle();
  for (size_t id = 0; id < scopes_.size(); ++id) end_maximum(static_cast<ScopeId>(id));
  const std::vector<uint64_t> sums = accounts_.finish();
  for (size_t i = 0; i < scopes_.size(); ++i) {
    Scope& scope = scopes_[i];
    if (sums[i] != scope.peak) {
      throw std::logic_error("peak_finder: holders do not add up to the peak");
    }
    if (scope.peak_site) scope.peak_group = accounts_.group_of(*scope.peak_site, ScopeListId());
  }
}

uint64_t PeakFinder::take_recent_max(ScopeId id) {
  Scope& scope = scopes_[id];
  const uint64_t recent = scope.recent_max;
  scope.recent_max = scope.current;
  return recent;
}

}  // namespace gpupeak::collector
