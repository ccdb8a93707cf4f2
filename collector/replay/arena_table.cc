#include "collector/replay/arena_table.h"

#include <algorithm>
#include <utility>

#include "collector/replay/replay_observer.h"

namespace gpupeak::collector {

void ArenaTable::tell(const Open& open, uint64_t address, const Block& block, bool in_use) const {
  if (observer_ == nullptr) return;
  observer_->on_arena_block({address, block.bytes, block.holder, block.alone, in_use, open.number,
                             parts_of(open, address)});
}

void ArenaTable::put_parts(Open& open, uint64_t address, const Block& block, const Cause& cause,
                           std::span<const BlockPart> parts) {
  if (parts.empty()) return;
  std::vector<PartOfBlock>& held = open.parts[address];
  const size_t arena = holder(block.holder).arena;
  for (const BlockPart& part : parts) {
    if (part.offset >= block.bytes) break;
    held.push_back({address + part.offset, std::min(part.bytes, block.bytes - part.offset),
                    user(arena, block.counted, 0, part.stack, cause)});
  }
}

/// Counts a block or its parts in (`sign` 1) or out (-1).
void ArenaTable::change(const Block& block, std::span<const PartOfBlock> parts, int sign,
                        bool allocates) {
  const auto count = static_cast<int16_t>(sign);
  for (const PartOfBlock& part : parts)
    change(part.holder, sign * static_cast<int64_t>(part.bytes), count, allocates);
  if (parts.empty())
    change(block.holder, sign * static_cast<int64_t>(block.bytes), count, allocates);
}

void ArenaTable::apply(uint64_t ticks, bool claims) {
  if (observer_ != nullptr && !step().empty()) observer_->on_arena_step(step());
  growth_.take(step(), ticks, claims);
  ArenaAccounts::apply(ticks, claims);
}

void ArenaTable::take_out(Open& open, uint64_t address, const Block& block) {
  tell(open, address, block, false);
  const size_t arena = holder(block.holder).arena;
  const auto bytes = static_cast<int64_t>(block.bytes);
  change(block, parts_of(open, address), -1, false);
  open.parts.erase(address);
  open.in_use -= block.bytes;
  if (block.alone) return causes_.give_back(arena, {kNoGroup, block.bytes, block.bytes});
  if (open.carved) {
    change(idle(arena, block.counted, IdleIn::kSegment), bytes);
  } else {
    leave_parents(arena, address, block);
  }
  arenas_[arena].placed.erase(address);
}

void ArenaTable::take_out_all(Open& open) {
  for (const auto& [address, block] : open.blocks) {
    note_peak(holder(block.holder).arena);
    take_out(open, address, block);
  }
  open.blocks.clear();
}

/// The arena of this number; nullptr, and the event counts as unmatched, if none is open.
ArenaTable::Open* ArenaTable::open_of(uint64_t number) {
  const auto found = open_.find(number);
  if (found != open_.end()) return &found->second;
  ++unmatched_;
  return nullptr;
}

void ArenaTable::on_arena(const ArenaEvent& event, uint32_t name, uint64_t ticks) {
  if (event.event == GPUPEAK_ARENA_CREATED) {
    const size_t index = row_for(name, event.device >= 0 ? event.device : kNowhere);
    const auto [entry, added] = open_.try_emplace(event.arena);
    if (!added) return;  // the number is in use: a damaged log
    Open& open = entry->second;
    open.number = event.arena;
    open.arena = index;
    open.capacity_bytes = event.bytes;
    if (event.bytes > 0 && event.address != 0) carve(open, event, ticks);
    Arena& arena = arenas_[open.arena];
    ++arena.count;
    arena.capacity_bytes += event.bytes;
    arena.largest_capacity_bytes = std::max(arena.largest_capacity_bytes, arena.capacity_bytes);
    apply(ticks);
    return;
  }
  Open* const found = open_of(event.arena);
  if (found == nullptr) return;
  Open& open = *found;
  take_out_all(open);
  if (event.event == GPUPEAK_ARENA_DESTROYED) {
    uncarve(event.arena, open);
    arenas_[open.arena].capacity_bytes -= open.capacity_bytes;
    open_.erase(event.arena);
  }
  apply(ticks);
}

void ArenaTable::allocate(const ArenaAllocEvent& event, uint32_t stack, uint64_t ticks, Cause cause,
                          std::span<const BlockPart> parts) {
  Open* const found = open_of(event.arena);
  if (found == nullptr) return;
  Open& open = *found;
  ArenaParents::Parent* const parent =
      open.carved ? nullptr : parent_at(open, event.address, ticks);
  if (parent != nullptr) open.arena = row_in(open.arena, parent->place);
  const size_t index = open.arena;
  Arena& arena = arenas_[index];

  const auto known = open.blocks.find(event.address);
  const bool again = known != open.blocks.end();
  const uint64_t gone = again ? known->second.bytes : 0;
  const PeakFinder::Scope& in_use = peaks().scope(arena.scope);
  if (in_use.current - gone + event.bytes <= in_use.peak) note_peak(index);
  uint32_t name = event.name;
  if (again) {
    if (name == 0) {
      const Holder& before = holder(known->second.holder);
      name = before.name;
      stack = before.stack;
      cause = before.cause;
    }
    take_out(open, event.address, known->second);
    open.blocks.erase(known);
  } else {
    ++arena.alloc_count;
  }

  Block block{.bytes = event.bytes};
  block.alone = !can_place(index, open, event.address, event.bytes);
  bool claims = false;
  if (!block.alone) {
    block.counted = open.carved ? open.counted : parent->outside != kNoHolder;
    if (open.carved) {
      const uint64_t fresh = arena.used.add(event.address, event.address + event.bytes);
      open.used_bytes += fresh;
      take_idle(index, block.counted, IdleIn::kSegment, fresh, event.bytes - fresh);
    } else {
      use_parents(index, event.address, event.bytes, ticks, claims);
    }
    arena.placed.emplace(event.address, event.address + event.bytes);
  } else {
    if (expects_older_) arena.has_older = true;
    causes_.take(index, {kNoGroup, event.bytes, event.bytes}, level(index).in_use, ticks);
  }
  block.holder = user(index, block.counted, name, stack, cause);
  put_parts(open, event.address, block, cause, parts);
  change(block, parts_of(open, event.address), +1, !again);
  open.blocks.emplace(event.address, block);
  tell(open, event.address, block, true);
  arena.largest_block = std::max(arena.largest_block, event.bytes);
  open.in_use += event.bytes;
  open.answered_ticks = ticks;
  apply(ticks, claims);
  // If the block lies in no memory that the log knows, as in the host's heap where that is not
  // recorded, then what the arena has reserved is not known either.
  compare(open, event.in_use_plus_1, block.alone ? 0 : event.reserved_plus_1);
}

void ArenaTable::free(const ArenaFreeEvent& event, uint64_t ticks) {
  Open* const found = open_of(event.arena);
  if (found == nullptr) return;
  Open& open = *found;
  const auto block = open.blocks.find(event.address);
  if (block != open.blocks.end()) {
    note_peak(holder(block->second.holder).arena);
    take_out(open, event.address, block->second);
    open.blocks.erase(block);
    apply(ticks);
  } else if (!is_older(open, event)) {
    ++unmatched_;
  }
  compare(open, event.in_use_plus_1, event.reserved_plus_1);
}

/// Whether this frees a block from before the log's start.
bool ArenaTable::is_older(Open& open, const ArenaFreeEvent& event) {
  if (open.unseen >= event.bytes && event.bytes > 0) {
    open.unseen -= event.bytes;
    return true;
  }
  // The arena's totals tell how much of the older blocks is left. Until the first total has been
  // read, in an attached program, this may be one of them.
  if (!expects_older_ || open.told) return false;
  arenas_[open.arena].has_older = true;
  return true;
}

void ArenaTable::failed(const ArenaFailedEvent& event, const Requester& requester, uint64_t ticks) {
  Open* const open = open_of(event.arena);
  if (open == nullptr) return;
  const size_t index = open->arena;
  const uint64_t since_ticks = std::exchange(open->answered_ticks, ticks);
  Arena& arena = arenas_[index];
  ++arena.failed_count;
  arena.largest_refused = std::max(arena.largest_refused, event.bytes);
  ++failure_count_;
  if (patience_.has_ended() || !patience_.take(holders().size() + steps_of_one())) return;
  if (failures_.size() == kMaxFailures) failures_.pop_back();
  if (failures_.size() > kMaxFailuresWithHolders) failures_.back().holders.clear();
  Failure& failure = failures_.emplace_back();
  failure.ticks = ticks;
  failure.since_ticks = since_ticks;
  failure.requester = requester;
  failure.event = event;
  failure.snapshot = snapshot(index);
  const int32_t place = arena.place;
  // An arena that has had no block lies nowhere yet: the event names the device.
  failure.device = place == kNowhere ? event.device : std::max(place, -1);
  if (const ScopeId* driver = device_scope(failure.device)) {
    failure.driver_bytes = peaks().scope(*driver).current;
  }
  note_holders(failure);
}

void ArenaTable::note_holders(Failure& failure) const {
  for (GroupId group{0}; group < holders().size(); ++group) {
    const Holder& holder = holders()[group];
    const PeakFinder::Group& held = peaks().group(group);
    if (held.live_bytes == 0 || holder.what == What::kIdle) continue;
    const bool same_place = holder.what == What::kOutside
                                ? holder.device == failure.device
                                : arenas()[holder.arena].place == failure.device;
    if (same_place) failure.holders.push_back({as_holder(group), held.live_bytes, held.live_count});
  }
}

/// Compares our sums with the totals that the allocator itself says.
void ArenaTable::compare(Open& open, uint64_t in_use_plus_1, uint64_t reserved_plus_1) {
  if (in_use_plus_1 == 0) return;
  Arena& arena = arenas_[open.arena];
  const uint64_t says = in_use_plus_1 - 1;
  const uint64_t reserved = peaks().scope(arena.reserved_scope).current;
  if (!open.told) {
    open.told = true;
    open.unseen = says > open.in_use ? says - open.in_use : 0;
    if (expects_older_ && (open.unseen > 0 || reserved_plus_1 > reserved + 1))
      arena.has_older = true;
  }
  ++arena.told;
  const bool same_in_use = open.in_use + open.unseen == says;
  // In the heap an arena may hold more than it says: ONNX Runtime's rounds small pieces up.
  const bool may_have_more = arena.place < 0;
  const bool same_reserved = reserved_plus_1 == 0 || open.unseen > 0 || arena.has_older ||
                             reserved == reserved_plus_1 - 1 ||
                             (may_have_more && reserved >= reserved_plus_1);
  if (!same_in_use || !same_reserved) ++arena.contradictions;
}

std::optional<uint64_t> ArenaTable::older_bytes(size_t arena) const {
  uint64_t bytes = 0;
  for (const auto& [number, open] : open_) {
    if (open.arena != arena) continue;
    if (!open.told) return std::nullopt;
    bytes += open.unseen;
  }
  return bytes;
}

/// Call it before a row changes in a way that makes no new maximum. The largest idle piece is found
/// only by looking at all blocks, so that is done once after a series of new maxima.
void ArenaTable::note_peak(size_t arena) {
  if (std::exchange(arenas_[arena].at_peak, false))
    arenas_[arena].largest_idle_at_peak = largest_idle(arena);
}

uint64_t ArenaTable::largest_idle(size_t arena) const {
  const Idle idle = idle_pieces(arena);
  return std::max(idle.largest, idle.captured_largest);
}

std::vector<ArenaTable::Segment> ArenaTable::segments(size_t arena) const {
  std::vector<Segment> segments;
  bool joins = false;
  parents_.for_each_of(arena,
                       [&](uint64_t begin, uint64_t end, const ArenaParents::Parent& parent) {
                         // Memory that was mapped side by side is used as one piece.
                         if (joins && parent.mapped && segments.back().end == begin &&
                             segments.back().captured == parent.captured) {
                           segments.back().end = end;
                         } else {
                           segments.push_back({begin, end, parent.captured});
                         }
                         joins = parent.mapped;
                       });
  for (const auto& [number, open] : open_) {
    if (open.arena == arena && open.carved) {
      segments.push_back({open.address, open.address + open.capacity_bytes, false});
    }
  }
  std::ranges::sort(segments);
  return segments;
}

ArenaTable::Idle ArenaTable::idle_pieces(size_t arena) const {
  Idle idle;
  parents_.for_each_of(arena, [&](uint64_t, uint64_t, const ArenaParents::Parent& parent) {
    idle.grows_in_place |= parent.mapped;
  });
  for_each_hole(arena, [&idle](uint64_t begin, uint64_t end, bool captured) {
    const uint64_t bytes = end - begin;
    uint64_t& largest = captured ? idle.captured_largest : idle.largest;
    largest = std::max(largest, bytes);
    if (captured) {
      idle.captured_bytes += bytes;
    } else {
      ++idle.pieces;
    }
  });
  return idle;
}

ArenaTable::Snapshot ArenaTable::snapshot(size_t arena) const {
  return {arena, level(arena), idle_pieces(arena)};
}

uint64_t ArenaTable::steps_of_one() const {
  uint64_t steps = parents_.range_count() + open_.size();
  for (const auto& [number, open] : open_) steps += open.blocks.size();
  return steps;
}

std::vector<ArenaTable::Snapshot> ArenaTable::all_on(int32_t device) const {
  std::vector<Snapshot> all;
  for (size_t arena = 0; arena < arenas().size(); ++arena) {
    if (arenas()[arena].place == device && level(arena).reserved > 0)
      all.push_back(snapshot(arena));
  }
  return all;
}

void ArenaTable::finish() {
  for (size_t row = 0; row < arenas_.size(); ++row) note_peak(row);
  ArenaAccounts::finish();
  causes_.finish();
}

}  // namespace gpupeak::collector
