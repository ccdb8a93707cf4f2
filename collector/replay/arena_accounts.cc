#include "collector/replay/arena_accounts.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace gpupeak::collector {

uint64_t UsedRanges::add(uint64_t begin, uint64_t end) {
  if (begin >= end) return 0;
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin() && std::prev(range)->second >= begin) --range;
  if (range != ranges_.end() && range->first <= begin && range->second >= end) return 0;
  uint64_t fresh = end - begin;
  uint64_t joined_begin = begin, joined_end = end;
  while (range != ranges_.end() && range->first <= end) {
    fresh -= std::min(range->second, end) - std::max(range->first, begin);
    joined_begin = std::min(joined_begin, range->first);
    joined_end = std::max(joined_end, range->second);
    range = ranges_.erase(range);
  }
  ranges_.emplace(joined_begin, joined_end);
  return fresh;
}

uint64_t UsedRanges::remove(uint64_t begin, uint64_t end) {
  uint64_t used = 0;
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin() && std::prev(range)->second > begin) --range;
  while (range != ranges_.end() && range->first < end) {
    const auto [from, to] = *range;
    used += std::min(to, end) - std::max(from, begin);
    range = ranges_.erase(range);
    if (from < begin) ranges_.emplace(from, begin);
    if (to > end) ranges_.emplace(end, to);
  }
  return used;
}

size_t ArenaAccounts::row_for(uint32_t name, int32_t place) {
  auto known = by_name_.find({name, place});
  // A new arena whose place is not known is most likely like its namesakes in the host's memory.
  if (known == by_name_.end() && place == kNowhere) known = by_name_.find({name, kHost});
  if (known != by_name_.end()) return known->second;
  if (arenas_.size() == kMostRows) return kMostRows - 1;
  Arena& fresh = arenas_.emplace_back();
  fresh.name = name;
  fresh.place = place;
  fresh.scope = peaks_.add_scope();
  fresh.reserved_scope = peaks_.add_scope();
  by_name_.emplace(std::pair{name, place}, arenas_.size() - 1);
  return arenas_.size() - 1;
}

size_t ArenaAccounts::row_in(size_t row, int32_t place) {
  Arena& arena = arenas_[row];
  if (place == kNowhere || arena.place == place) return row;
  if (arena.place == kNowhere && (arena.alloc_count == 0 || arena.has_older) &&
      !by_name_.contains({arena.name, place})) {
    by_name_.erase({arena.name, kNowhere});
    by_name_.emplace(std::pair{arena.name, place}, row);
    arena.place = place;
    return row;
  }
  return row_for(arena.name, place);
}

ScopeId ArenaAccounts::scope_in(std::map<int32_t, ScopeId>& scopes, int32_t device) {
  const auto [entry, added] = scopes.try_emplace(device);
  if (added) entry->second = peaks_.add_scope();
  return entry->second;
}

const ScopeId* ArenaAccounts::device_scope(int32_t device) const {
  const auto entry = driver_scopes_.find(device);
  return entry != driver_scopes_.end() ? &entry->second : nullptr;
}

const ScopeId* ArenaAccounts::in_arenas_scope(int32_t device) const {
  const auto entry = in_arenas_scopes_.find(device);
  return entry != in_arenas_scopes_.end() ? &entry->second : nullptr;
}

HolderId ArenaAccounts::outside(GroupId group, int32_t device) {
  const auto [entry, added] = outside_.try_emplace(group);
  if (added) {
    entry->second = add({.what = What::kOutside, .outside = group, .device = device},
                        std::array{scope_in(driver_scopes_, device)});
  }
  return entry->second;
}

HolderId ArenaAccounts::idle(size_t row, bool counted, IdleIn in, bool never_used) {
  Arena& of = arenas_[row];
  HolderId& id = of.idle[static_cast<size_t>(in)][never_used ? 1 : 0][counted ? 1 : 0];
  if (id != kNoHolder) return id;
  const Holder holder{.what = What::kIdle,
                      .arena = row,
                      .never_used = never_used,
                      .counted = counted,
                      .idle_in = in};
  id = counted ? add(holder, std::array{of.reserved_scope, scope_in(driver_scopes_, of.place)})
               : add(holder, std::array{of.reserved_scope});
  return id;
}

HolderId ArenaAccounts::user(size_t row, bool counted, uint32_t name, uint32_t stack,
                             const Cause& cause) {
  if (name != 0) stack = 0;
  const auto [entry, added] = users_.try_emplace({row, counted, name, stack, cause}, kNoHolder);
  if (added) {
    const Arena& of = arenas_[row];
    const Holder holder{.what = What::kInUse,
                        .arena = row,
                        .name = name,
                        .stack = stack,
                        .cause = cause,
                        .counted = counted};
    entry->second = counted ? add(holder, std::array{of.scope, of.reserved_scope,
                                                     scope_in(driver_scopes_, of.place),
                                                     scope_in(in_arenas_scopes_, of.place),
                                                     scope_in(in_arenas_scopes_, kAllDevices)})
                            : add(holder, std::array{of.scope, of.reserved_scope});
  }
  return entry->second;
}

void ArenaAccounts::apply(uint64_t ticks, bool claims) {
  if (changes_.empty()) return;
  if (claims) {
    peaks_.regroup(changes_, ticks);
  } else {
    peaks_.apply(changes_, ticks);
  }
  for (const PeakFinder::Change& part : changes_) {
    if (holders_[part.group].what != What::kInUse) continue;
    Arena& arena = arenas_[holders_[part.group].arena];
    const PeakFinder::Scope& in_use = peaks_.scope(arena.scope);
    if (in_use.peak_ticks != ticks || in_use.current != in_use.peak || part.bytes <= 0) continue;
    arena.reserved_at_peak = peaks_.scope(arena.reserved_scope).current;
    arena.at_peak = true;
  }
  changes_.clear();
}

ArenaAccounts::Level ArenaAccounts::level(size_t arena) const {
  return {peaks_.scope(arenas_[arena].scope).current,
          peaks_.scope(arenas_[arena].reserved_scope).current};
}

}  // namespace gpupeak::collector
