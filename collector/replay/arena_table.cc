#include "collector/replay/arena_table.h"

#include <algorithm>
#include <array>

namespace gpupeak::collector {

size_t ArenaTable::arena_named(uint32_t name) {
  const auto known = by_name_.find(name);
  if (known != by_name_.end()) return known->second;
  if (arenas_.size() == kMostNames) return kMostNames - 1;
  Arena& fresh = arenas_.emplace_back();
  fresh.name = name;
  fresh.scope = peaks_.add_scope();
  by_name_.emplace(name, arenas_.size() - 1);
  return arenas_.size() - 1;
}

GroupId ArenaTable::group_of(size_t arena, uint32_t name, uint32_t stack) {
  if (name != 0) stack = 0;
  const auto [entry, added] = groups_.try_emplace({arena, {name, stack}}, kNoGroup);
  if (added) {
    entry->second = peaks_.add_group(std::array{arenas_[arena].scope});
    holders_.push_back({name, stack});
  }
  return entry->second;
}

void ArenaTable::clear(Open& open) {
  for (const auto& [address, block] : open.blocks) peaks_.remove(block.group, block.bytes);
  open.blocks.clear();
}

void ArenaTable::on_arena(const ArenaEvent& event, uint32_t name) {
  if (event.event == GPUPEAK_ARENA_CREATED) {
    const size_t index = arena_named(name);
    const auto [entry, added] = open_.try_emplace(event.arena);
    if (!added) return;  // its number is taken: a damaged log
    entry->second.arena = index;
    entry->second.capacity_bytes = event.bytes;
    Arena& arena = arenas_[index];
    ++arena.count;
    arena.capacity_bytes += event.bytes;
    arena.largest_capacity_bytes = std::max(arena.largest_capacity_bytes, arena.capacity_bytes);
    return;
  }
  const auto found = open_.find(event.arena);
  if (found == open_.end()) {
    ++unmatched_;
    return;
  }
  clear(found->second);
  if (event.event != GPUPEAK_ARENA_DESTROYED) return;
  arenas_[found->second.arena].capacity_bytes -= found->second.capacity_bytes;
  open_.erase(found);
}

void ArenaTable::allocate(const ArenaAllocEvent& event, uint32_t stack, uint64_t ticks) {
  const auto found = open_.find(event.arena);
  if (found == open_.end()) {
    ++unmatched_;
    return;
  }
  Open& open = found->second;
  const auto [entry, added] = open.blocks.try_emplace(event.address);
  Block& block = entry->second;
  const GroupId group =
      added || event.name != 0 ? group_of(open.arena, event.name, stack) : block.group;
  if (added) {
    ++arenas_[open.arena].alloc_count;
    peaks_.add(group, event.bytes, ticks);
  } else {
    const PeakFinder::Change changes[] = {
        {block.group, -static_cast<int64_t>(block.bytes), -1, false},
        {group, static_cast<int64_t>(event.bytes), 1, false}};
    peaks_.apply(changes, ticks);
  }
  block = {group, event.bytes};
}

void ArenaTable::free(const ArenaFreeEvent& event) {
  const auto found = open_.find(event.arena);
  if (found != open_.end()) {
    const auto block = found->second.blocks.find(event.address);
    if (block != found->second.blocks.end()) {
      peaks_.remove(block->second.group, block->second.bytes);
      found->second.blocks.erase(block);
      return;
    }
  }
  ++unmatched_;
}

}  // namespace gpupeak::collector
