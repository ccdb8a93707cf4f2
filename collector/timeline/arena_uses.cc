#include "collector/timeline/arena_uses.h"

namespace gpupeak::collector {

void ArenaUses::on_block(const ArenaBlockChange& change, size_t arena) {
  if (!on_) return;
  arena_of_[change.arena] = arena;
  const Place place{arena, change.address};
  if (change.in_use) {
    const auto [live, fresh] = live_.try_emplace(place);  // if it is there already, its free failed
    if (fresh) live->second.block = ++last_block_;
    live->second.bytes = change.bytes;
    return;
  }
  const auto ended = live_.find(place);
  if (ended == live_.end()) return;
  if (ended->second.is_kept) {
    ended_[ended->second.block] = ended->second.uses;
    kept_live_.erase(ended->second.block);
  }
  live_.erase(ended);
}

void ArenaUses::on_used(const UsedEvent& used, uint64_t ticks) {
  const auto arena = arena_of_.find(used.arena);
  if (arena == arena_of_.end()) return;
  const auto live = live_.find({arena->second, used.block});
  if (live != live_.end()) live->second.uses.add(used, ticks);
}

std::map<ArenaUses::Place, ArenaUses::Live>::const_iterator ArenaUses::live_at(
    size_t arena, uint64_t address) const {
  auto live = live_.upper_bound({arena, address});
  if (live == live_.begin()) return live_.end();
  const auto& [place, block] = *--live;
  const bool is_there =
      place.first == arena && (address == place.second || address - place.second < block.bytes);
  return is_there ? live : live_.end();
}

uint64_t ArenaUses::block_at(size_t arena, uint64_t address) const {
  const auto live = live_at(arena, address);
  return live == live_.end() ? kNone : live->second.block;
}

void ArenaUses::keep(size_t arena, uint64_t address) {
  const auto there = live_at(arena, address);
  if (there == live_.end()) return;
  Live& live = live_.at(there->first);
  live.is_kept = true;
  kept_live_[live.block] = there->first;
}

BlockUses ArenaUses::of(uint64_t block) const {
  if (const auto ended = ended_.find(block); ended != ended_.end()) return ended->second;
  const auto live = kept_live_.find(block);
  return live == kept_live_.end() ? BlockUses{} : live_.at(live->second).uses;
}

}  // namespace gpupeak::collector
