#include "collector/replay/arena_accounts.h"

#include <algorithm>
#include <utility>

namespace gpupeak::collector {

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

/// The number of a holder; a new one counts into the sums that it is a part of.
HolderId ArenaAccounts::id_of(const Holder& holder) {
  const auto [entry, added] = ids_.try_emplace(holder);
  if (!added) return entry->second;
  std::vector<ScopeId> scopes;
  int32_t device = holder.device;
  if (holder.what != What::kOutside) {
    const Arena& of = arenas_[holder.arena];
    if (holder.what == What::kInUse) scopes.push_back(of.scope);
    scopes.push_back(of.reserved_scope);
    device = of.place;
  }
  if (holder.counted) scopes.push_back(scope_in(driver_scopes_, device));
  if (holder.counted && holder.what == What::kInUse) {
    for (const int32_t place : {device, kAllDevices})
      scopes.push_back(scope_in(in_arenas_scopes_, place));
  }
  holders_.push_back(holder);
  return entry->second = as_holder(peaks_.add_group(scopes));
}

HolderId ArenaAccounts::outside(GroupId group, int32_t device) {
  return id_of({.what = What::kOutside, .outside = group, .device = device});
}

HolderId ArenaAccounts::idle(size_t row, bool counted, IdleIn in, bool never_used) {
  HolderId& id = arenas_[row].idle[static_cast<size_t>(in)][never_used ? 1 : 0][counted ? 1 : 0];
  if (id == kNoHolder) {
    id = id_of({.what = What::kIdle,
                .arena = row,
                .never_used = never_used,
                .counted = counted,
                .idle_in = in});
  }
  return id;
}

HolderId ArenaAccounts::user(size_t row, bool counted, uint32_t name, uint32_t stack,
                             const Cause& cause) {
  return id_of({.what = What::kInUse,
                .arena = row,
                .name = name,
                .stack = name != 0 ? 0 : stack,
                .cause = cause,
                .counted = counted});
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

PoolReserves::Id PoolReserves::id_of(uint64_t handle) {
  const auto [entry, added] = by_handle_.try_emplace(handle, last_ + 1);
  if (added) pools_[++last_];
  return entry->second;
}

void PoolReserves::change(Pool& pool, int32_t device, uint64_t reserved) {
  const auto move = [this](int32_t where, uint64_t by) {
    if (where < 0 || by == 0) return;  // a pool of host memory
    for (const int32_t scope : {-1, where}) {
      Gauge& gauge = reserved_[scope];
      gauge.set(gauge.current + by);
    }
  };
  move(pool.device, 0 - pool.reserved);
  move(device, reserved);
  pool.device = device;
  pool.reserved = reserved;
}

uint64_t PoolReserves::in_use_of(int32_t device) const {
  uint64_t sum = 0;
  for (const auto& [id, pool] : pools_) sum += pool.device == device ? pool.in_use : 0;
  return sum;
}

void PoolReserves::give_back_all(Pool& pool) {
  for (const Segment& segment : pool.segments)
    causes_.give_back(static_cast<size_t>(pool.device), segment.taken);
  pool.segments.clear();
}

void PoolReserves::grow(Pool& pool, uint64_t bytes, uint64_t ticks) {
  Segment segment{{kSeveral, bytes, 0}, 0};
  uint64_t in_use = in_use_of(pool.device);
  if (pool.requests == 1) {
    segment = {{pool.last.group, bytes, std::min(bytes, pool.last.bytes)}, pool.last.id};
    in_use -= std::min(in_use, pool.last.bytes);
  }
  causes_.take(static_cast<size_t>(pool.device), segment.taken, in_use, ticks);
  pool.segments.push_back(segment);
}

/// The pool has `bytes` left.
void PoolReserves::shrink(Pool& pool, uint64_t bytes, uint64_t ticks, const IsLive& is_live) {
  const auto must_stay = [&](const Segment& segment) {
    return segment.block != 0 && is_live(segment.block);
  };
  uint64_t kept = 0;
  for (const Segment& segment : pool.segments) kept += must_stay(segment) ? segment.taken.bytes : 0;
  // If live blocks seem to need more than is left, nothing is known: a pool may give back what lies
  // behind a block in its segment.
  const bool knows_some = kept <= bytes;
  std::vector<Segment> left;
  for (const Segment& segment : pool.segments) {
    if (knows_some && must_stay(segment)) {
      left.push_back(segment);
    } else {
      causes_.give_back(static_cast<size_t>(pool.device), segment.taken);
    }
  }
  pool.segments = std::move(left);
  const uint64_t rest = bytes - (knows_some ? kept : 0);
  if (rest == 0) return;
  pool.segments.push_back({{kLeft, rest, 0}, 0});
  causes_.take(static_cast<size_t>(pool.device), pool.segments.back().taken, in_use_of(pool.device),
               ticks);
}

void PoolReserves::on_event(const PoolEvent& event, uint64_t ticks, const IsLive& is_live) {
  const Id id = id_of(event.pool);
  Pool& pool = pools_[id];
  if (event.event == GPUPEAK_POOL_DESTROYED) {
    by_handle_.erase(event.pool);
    pool.destroyed = true;
    if (pool.blocks > 0) return;
    give_back_all(pool);
    change(pool, pool.device, 0);
    pools_.erase(id);
    return;
  }
  if (event.device != pool.device) give_back_all(pool);
  const uint64_t before = event.device == pool.device ? pool.reserved : 0;
  change(pool, event.device, event.reserved);
  if (pool.device >= 0 && event.reserved > before)
    grow(pool, event.reserved - before, ticks);
  else if (pool.device >= 0 && event.reserved < before)
    shrink(pool, event.reserved, ticks, is_live);
  pool.requests = 0;
  if (pool.device < 0) return;
  const uint64_t now = reserved_[pool.device].current;
  Largest& largest = largest_[pool.device];
  if (now > largest.reserved_bytes) largest = {ticks, now, in_use_of(pool.device)};
}

PoolReserves::Id PoolReserves::allocated(uint64_t handle, const Block& block) {
  if (handle == 0) return kNone;
  const Id id = id_of(handle);
  Pool& pool = pools_[id];
  ++pool.blocks;
  pool.in_use += block.bytes;
  pool.last = block;
  ++pool.requests;
  return id;
}

void PoolReserves::freed(Id id, uint64_t bytes) {
  const auto entry = pools_.find(id);
  if (entry == pools_.end() || entry->second.blocks == 0) return;
  Pool& pool = entry->second;
  pool.in_use -= std::min(pool.in_use, bytes);
  if (--pool.blocks > 0 || !pool.destroyed) return;
  give_back_all(pool);
  change(pool, pool.device, 0);
  pools_.erase(entry);
}

void PoolReserves::revived(Id id, uint64_t bytes) {
  const auto entry = pools_.find(id);
  if (entry == pools_.end()) return;
  ++entry->second.blocks;
  entry->second.in_use += bytes;
}

}  // namespace gpupeak::collector
