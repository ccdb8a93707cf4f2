// ArenaTable's part for the memory under arenas: what the driver hands out and takes back, and
// which arena owns it.
#include <algorithm>

#include "collector/log/kinds.h"
#include "collector/replay/arena_table.h"

namespace gpupeak::collector {
namespace {

bool has_own_address(uint8_t kind) {
  return memory_kind(kind).place == MemoryKind::Place::Own;
}

bool is_mapped_elsewhere(uint8_t kind) {
  return memory_kind(kind).place == MemoryKind::Place::Mapped;
}

}  // namespace

void ArenaTable::device_allocated(const DriverBlock& block, uint64_t ticks) {
  const bool of_device = is_device_kind(block.kind) && block.device >= 0;
  const bool counted = of_device && counts_into_sum(block.kind);
  if (!counted && !has_own_address(block.kind) && !is_mapped_elsewhere(block.kind)) return;
  ArenaParents::Parent parent;
  parent.bytes = block.bytes;
  parent.address = has_own_address(block.kind) ? block.address : 0;
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
          if (block->second > begin || block->first == begin) {
            ends.emplace_back(parent.owner, block->first);
          }
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
  if (after != placed.end() && (after->first == address || after->first < address + bytes)) {
    return false;
  }
  if (after != placed.begin() && std::prev(after)->second > address) return false;
  if (open.carved) {
    return address >= open.address && bytes <= open.capacity_bytes &&
           address - open.address <= open.capacity_bytes - bytes;
  }
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
  if (parent != nullptr && event.address - parent->address + event.bytes > parent->bytes) {
    parent = nullptr;
  }
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
