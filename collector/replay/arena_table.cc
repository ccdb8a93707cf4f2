#include "collector/replay/arena_table.h"

#include "collector/log/kinds.h"
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
  Open* const found = value_in(open_, number);
  if (found == nullptr) ++unmatched_;
  return found;
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
  if (const ScopeId* driver = device_scope(failure.device))
    failure.driver_bytes = peaks().scope(*driver).current;
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
    if (open.arena == arena && open.carved)
      segments.push_back({open.address, open.address + open.capacity_bytes, false});
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

// The memory under arenas: what the driver hands out and takes back, and which arena owns it.

void ArenaTable::device_allocated(const DriverBlock& block, uint64_t ticks) {
  const bool of_device = is_device_kind(block.kind) && block.device >= 0;
  const bool counted = of_device && counts_into_sum(block.kind);
  const MemoryKind::Place place = memory_kind(block.kind).place;
  const bool has_own_address = place == MemoryKind::Place::Own;
  if (!counted && !has_own_address && place != MemoryKind::Place::Mapped) return;
  ArenaParents::Parent parent;
  parent.bytes = block.bytes;
  parent.address = has_own_address ? block.address : 0;
  parent.place = of_device ? block.device : kHost;
  parent.captured = block.captured;
  parent.taken_by = block.group;
  if (counted) {
    parent.outside = outside(block.group, block.device);
    change(parent.outside, static_cast<int64_t>(block.bytes), 1, true);
    apply(ticks);
  }
  if (parent.address != 0) {
    vacate(parent.address, block.bytes);
    apply(ticks);
  }
  parents_.add(block.id, parent);
}

void ArenaTable::device_freed(uint64_t id, uint64_t ticks) {
  remove_parent(id, ticks);
}

void ArenaTable::device_mapped(uint64_t address, uint64_t bytes, uint64_t id, uint64_t ticks) {
  device_unmapped(address, bytes, ticks);
  parents_.map(address, bytes, id);
}

void ArenaTable::device_unmapped(uint64_t address, uint64_t bytes, uint64_t ticks) {
  vacate(address, bytes);
  apply(ticks);
  parents_.unmap(address, bytes);
}

/// Takes out all blocks that arenas still have at these addresses, which end. Neither the driver
/// nor the heap does that to a sound program.
void ArenaTable::vacate(uint64_t address, uint64_t bytes) {
  std::vector<std::pair<uint64_t, uint64_t>> ends;
  parents_.for_each_in(
      address, bytes,
      [&](ArenaParents::Key, const ArenaParents::Parent& parent, uint64_t begin, uint64_t end) {
        if (parent.owner == ArenaParents::kNobody) return;
        note_peak(parent.owner);
        const auto& placed = arenas_[parent.owner].placed;
        auto block = placed.upper_bound(begin);
        if (block != placed.begin()) --block;
        for (; block != placed.end() && block->first < end; ++block) {
          if (block->second > begin || block->first == begin)
            ends.emplace_back(parent.owner, block->first);
        }
      });
  for (const auto& [arena, begin] : ends) {
    for (auto& [number, open] : open_) {
      const auto block = open.blocks.find(begin);
      if (block == open.blocks.end() || block->second.alone ||
          holder(block->second.holder).arena != arena) {
        continue;
      }
      arenas_[arena].lost_bytes += block->second.bytes;
      take_out(open, begin, block->second);
      open.blocks.erase(block);
    }
  }
  forget_use(address, bytes);
}

/// Forgets which of these addresses blocks have used: the next memory there is new.
void ArenaTable::forget_use(uint64_t address, uint64_t bytes) {
  parents_.for_each_in(
      address, bytes,
      [&](ArenaParents::Key, ArenaParents::Parent& parent, uint64_t begin, uint64_t end) {
        if (parent.owner == ArenaParents::kNobody) return;
        const uint64_t used = arenas_[parent.owner].used.remove(std::max(begin, address),
                                                                std::min(end, address + bytes));
        if (used == 0) return;
        const bool counted = parent.outside != kNoHolder;
        parent.used_bytes -= used;
        const IdleIn in = parent.idle_in();
        change(never_used(parent.owner, counted, in), static_cast<int64_t>(used));
        change(idle(parent.owner, counted, in), -static_cast<int64_t>(used));
      });
}

/// Sets how much of the parent is in use. When its first block comes or its last one goes, its idle
/// memory counts elsewhere (IdleIn), so it is moved.
void ArenaTable::set_in_use(ArenaParents::Parent& parent, uint64_t bytes) {
  const IdleIn before = parent.idle_in();
  const auto used = static_cast<int64_t>(parent.used_bytes - parent.in_use_bytes);
  const auto fresh = static_cast<int64_t>(parent.bytes - parent.used_bytes);
  parent.in_use_bytes = bytes;
  const IdleIn after = parent.idle_in();
  if (before == after) return;
  const bool counted = parent.outside != kNoHolder;
  change(idle(parent.owner, counted, before), -used);
  change(idle(parent.owner, counted, after), used);
  change(never_used(parent.owner, counted, before), -fresh);
  change(never_used(parent.owner, counted, after), fresh);
}

/// Idle memory comes into use, or goes with its segment: `fresh` bytes that no block has used, and
/// `again` bytes that one had.
void ArenaTable::take_idle(size_t arena, bool counted, IdleIn in, uint64_t fresh, uint64_t again) {
  if (fresh > 0) change(never_used(arena, counted, in), -static_cast<int64_t>(fresh));
  if (again > 0) change(idle(arena, counted, in), -static_cast<int64_t>(again));
}

void ArenaTable::remove_parent(ArenaParents::Key key, uint64_t ticks) {
  ArenaParents::Parent* parent = parents_.find(key);
  if (parent == nullptr) return;
  const bool counted = parent->outside != kNoHolder;
  const auto bytes = static_cast<int64_t>(parent->bytes);
  if (parent->owner != ArenaParents::kNobody) {
    note_peak(parent->owner);
    if (parent->address != 0) vacate(parent->address, parent->bytes);
    take_idle(parent->owner, counted, parent->idle_in(), parent->bytes - parent->used_bytes,
              parent->used_bytes);
    causes_.give_back(parent->owner, {parent->taken_by, parent->bytes, parent->asked_bytes});
  } else if (counted) {
    while (!parent->carved.empty()) {
      const uint64_t number = parent->carved.back();
      Open& open = open_[number];
      note_peak(open.arena);
      take_out_all(open);
      uncarve(number, open);
    }
    change(parent->outside, -bytes, -1);
  }
  parents_.remove(key);
  apply(ticks);
}

void ArenaTable::find_in_heap(uint64_t address, uint64_t ticks) {
  if (!find_heap_block_ || fruitless_looks_ == kMostFruitlessLooks) return;
  uint64_t begin = 0, bytes = 0;
  if (!find_heap_block_(address, begin, bytes)) {
    ++fruitless_looks_;
    return;
  }
  vacate(begin, bytes);
  apply(ticks);
  ArenaParents::Parent parent;
  parent.bytes = bytes;
  parent.address = begin;
  parent.place = kHost;
  parents_.add(ArenaParents::heap_key(begin), parent);
}

/// The parent that an address lies in; nullptr: none that the log knows.
ArenaParents::Parent* ArenaTable::parent_at(const Open& open, uint64_t address, uint64_t ticks) {
  ArenaParents::Parent* found = nullptr;
  const auto look = [&] {
    parents_.for_each_in(address, 1,
                         [&](ArenaParents::Key, ArenaParents::Parent& parent, uint64_t, uint64_t) {
                           found = &parent;
                         });
  };
  look();
  if (found == nullptr && arenas_[open.arena].place < 0) {
    find_in_heap(address, ticks);
    look();
  }
  return found;
}

/// Whether a block can lie there: all of its memory is the arena's or has no owner, and none of it
/// is in another block of the arena's.
bool ArenaTable::can_place(size_t arena, const Open& open, uint64_t address, uint64_t bytes) {
  const auto& placed = arenas_[arena].placed;
  const auto after = placed.lower_bound(address);
  if (after != placed.end() && (after->first == address || after->first < address + bytes))
    return false;
  if (after != placed.begin() && std::prev(after)->second > address) return false;
  if (open.carved)
    return address >= open.address && bytes <= open.capacity_bytes &&
           address - open.address <= open.capacity_bytes - bytes;
  uint64_t covered = 0;
  bool available = false;
  bool others = false;
  parents_.for_each_in(
      address, std::max<uint64_t>(bytes, 1),
      [&](ArenaParents::Key, const ArenaParents::Parent& parent, uint64_t begin, uint64_t end) {
        covered += std::min(end, address + bytes) - std::max(begin, address);
        available = true;
        others = others || parent.carved_bytes > 0 || parent.place != arenas_[arena].place ||
                 (parent.owner != ArenaParents::kNobody && parent.owner != arena);
      });
  return available && !others && covered == bytes;
}

void ArenaTable::claim(ArenaParents::Key key, ArenaParents::Parent& parent, size_t arena,
                       uint64_t asked_bytes, uint64_t ticks) {
  if (parent.owner != ArenaParents::kNobody) return;
  const bool counted = parent.outside != kNoHolder;
  const auto bytes = static_cast<int64_t>(parent.bytes);
  parents_.give(parent, arena);
  if (!ArenaParents::is_heap(key)) shared_out_.insert(key);
  if (counted) change(parent.outside, -bytes, -1);
  change(never_used(arena, counted, parent.idle_in()), bytes);
  parent.asked_bytes = asked_bytes;
  causes_.take(arena, {parent.taken_by, parent.bytes, asked_bytes}, level(arena).in_use, ticks);
}

/// A block is allocated at these addresses: makes the memory there the arena's. `claims` becomes
/// true if some of it had no owner.
void ArenaTable::use_parents(size_t arena, uint64_t address, uint64_t bytes, uint64_t ticks,
                             bool& claims) {
  parents_.for_each_in(
      address, std::max<uint64_t>(bytes, 1),
      [&](ArenaParents::Key key, ArenaParents::Parent& of, uint64_t begin, uint64_t end) {
        claims = claims || of.owner == ArenaParents::kNobody;
        const uint64_t from = std::max(begin, address), to = std::min(end, address + bytes);
        const uint64_t part = to - std::min(from, to);
        claim(key, of, arena, part, ticks);
        set_in_use(of, of.in_use_bytes + part);
        const uint64_t fresh = arenas_[arena].used.add(from, to);
        of.used_bytes += fresh;
        take_idle(arena, of.outside != kNoHolder, of.idle_in(), fresh, part - fresh);
      });
}

/// A block goes: its memory becomes idle.
void ArenaTable::leave_parents(size_t arena, uint64_t address, const Block& block) {
  uint64_t rest = block.bytes;
  parents_.for_each_in(
      address, std::max<uint64_t>(block.bytes, 1),
      [&](ArenaParents::Key, ArenaParents::Parent& of, uint64_t begin, uint64_t end) {
        if (of.owner != arena) return;
        const uint64_t from = std::max(begin, address), to = std::min(end, address + block.bytes);
        const uint64_t part = std::min(to - std::min(from, to), of.in_use_bytes);
        set_in_use(of, of.in_use_bytes - part);
        change(idle(arena, block.counted, of.idle_in()), static_cast<int64_t>(part));
        rest -= part;
      });
  if (rest > 0) change(idle(arena, block.counted, IdleIn::kSegment), static_cast<int64_t>(rest));
}

/// Gives an arena that says where its memory is that much of what the driver handed out there.
void ArenaTable::carve(Open& open, const ArenaEvent& event, uint64_t ticks) {
  open.carved = true;
  ++carved_version_;
  open.address = event.address;
  ArenaParents::Parent* parent = parent_at(open, event.address, ticks);
  if (parent != nullptr && event.address - parent->address + event.bytes > parent->bytes)
    parent = nullptr;
  if (parent != nullptr) open.arena = row_in(open.arena, parent->place);
  // It counts in the device's sum only if the memory there is large enough for all arenas that say
  // they are in it, and is not another arena's.
  open.counted = parent != nullptr && parent->outside != kNoHolder &&
                 parent->owner == ArenaParents::kNobody &&
                 parent->carved_bytes + event.bytes <= parent->bytes;
  const auto bytes = static_cast<int64_t>(event.bytes);
  if (open.counted) {
    parents_.for_each_in(
        event.address, 1,
        [&](ArenaParents::Key key, const auto&, uint64_t, uint64_t) { open.parent = key; });
    parent->carved_bytes += event.bytes;
    parent->carved.push_back(event.arena);
    change(parent->outside, -bytes);
  }
  change(never_used(open.arena, open.counted, IdleIn::kSegment), bytes);
  open.taken_by = parent == nullptr ? kNoGroup : parent->taken_by;
  causes_.take(open.arena, {open.taken_by, event.bytes, event.bytes}, level(open.arena).in_use,
               ticks);
}

void ArenaTable::uncarve(uint64_t number, Open& open) {
  if (!open.carved) return;
  const auto bytes = static_cast<int64_t>(open.capacity_bytes);
  arenas_[open.arena].used.remove(open.address, open.address + open.capacity_bytes);
  take_idle(open.arena, open.counted, IdleIn::kSegment, open.capacity_bytes - open.used_bytes,
            open.used_bytes);
  causes_.give_back(open.arena, {open.taken_by, open.capacity_bytes, open.capacity_bytes});
  open.used_bytes = 0;
  if (open.counted) {
    if (ArenaParents::Parent* parent = parents_.find(open.parent)) {
      change(parent->outside, bytes);
      parent->carved_bytes -= open.capacity_bytes;
      std::erase(parent->carved, number);
    }
  }
  open.carved = open.counted = false;
  ++carved_version_;
}

}  // namespace gpupeak::collector
