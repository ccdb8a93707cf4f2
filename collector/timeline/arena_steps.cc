#include "collector/timeline/arena_steps.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace gpupeak::collector {
int64_t history_time(const ArenaHistory& history, int64_t ns) {
  return history.steps.empty() ? ns : std::max(ns, history.steps.back().time_ns);
}

void put_pieces(ArenaHistory& history, ArenaHistory& found) {
  history.every = found.every;
  history.steps = std::move(found.steps);
  history.segments = std::move(found.segments);
  history.blocks = std::move(found.blocks);
  history.several = std::move(found.several);
  history.holes = std::move(found.holes);
  history.levels = std::move(found.levels);
}

ArenaNumbers::ArenaNumbers(const ArenaHistory& history) {
  for (uint32_t arena = 0; arena < history.arenas.size(); ++arena) {
    const size_t in_table = history.arenas[arena].arena;
    if (in_table >= numbers_.size()) numbers_.resize(in_table + 1, kNone);
    numbers_[in_table] = arena;
  }
}

void ArenaLevels::note(const ArenaTable& table, uint32_t step,
                       std::vector<ArenaHistory::Level>& levels) {
  for (uint32_t arena = 0; arena < arenas_.size(); ++arena) {
    if (arenas_[arena].arena >= table.arenas().size()) continue;
    const ArenaTable::Level level = table.level(arenas_[arena].arena);
    if (level.in_use == last_[arena].in_use && level.reserved == last_[arena].reserved) continue;
    last_[arena] = level;
    levels.push_back({step, arena, level.in_use, level.reserved});
  }
}

ArenaSteps::ArenaSteps(const ArenaHistory& history, const ClockMap& clock, ArenaUses& uses)
    : arenas_(history.arenas), numbers_(history), clock_(clock), uses_(uses), levels_(history) {
  segments_.resize(arenas_.size());
  in_use_.resize(arenas_.size());
  found_.every = true;
}

void ArenaSteps::give_up() {
  too_many_ = true;
  found_ = {};
  pending_ = {};
  segments_ = {};
  blocks_ = {};
}

void ArenaSteps::after(const ArenaTable& table, uint64_t ticks) {
  const bool moved = table.segments_version() != segments_version_;
  if (too_many_ || (!moved && pending_.empty())) return;
  const auto step = static_cast<uint32_t>(found_.steps.size());
  if (moved) look_at_segments(table, step);
  for (const ArenaBlockChange& change : pending_) {
    const uint32_t arena = numbers_.of(table.holder(change.holder).arena);
    if (arena == ArenaNumbers::kNone) continue;
    ++changes_;
    if (change.in_use) {
      put(change, arena, step);
    } else {
      take_out(change, arena, step);
    }
  }
  pending_.clear();
  for (uint32_t arena = 0; arena < arenas_.size(); ++arena) {
    const size_t in_table = arenas_[arena].arena;
    const uint64_t expected = in_table < table.arenas().size() ? table.level(in_table).in_use : 0;
    if (in_use_[arena] != expected) {
      throw std::logic_error("pool history: blocks do not add up to what is in use");
    }
  }
  levels_.note(table, step, found_.levels);
  found_.steps.push_back({history_time(found_, clock_.to_ns(ticks)), ""});
  if (changes_ > kMaxArenaChanges || looks_ > kMostLooks) give_up();
}

void ArenaSteps::look_at_segments(const ArenaTable& table, uint32_t step) {
  segments_version_ = table.segments_version();
  for (uint32_t arena = 0; arena < arenas_.size(); ++arena) {
    if (arenas_[arena].arena >= table.arenas().size()) continue;
    looks_ += table.range_count();
    std::map<SegmentKey, uint32_t> now;
    for (const auto& [begin, end, captured] : table.segments(arenas_[arena].arena)) {
      const auto before = segments_[arena].find({begin, end});
      if (before != segments_[arena].end()) {
        now.insert(segments_[arena].extract(before));
        continue;
      }
      now[{begin, end}] = static_cast<uint32_t>(found_.segments.size());
      found_.segments.push_back({arena, begin, end - begin, captured, step, 0});
      ++changes_;
    }
    for (const auto& [key, gone] : segments_[arena]) found_.segments[gone].end = step;
    changes_ += segments_[arena].size();
    segments_[arena] = std::move(now);
  }
}

void ArenaSteps::put(const ArenaBlockChange& change, uint32_t arena, uint32_t step) {
  uint32_t segment = ArenaHistory::Block::kAlone;
  if (!change.alone) {
    auto of = segments_[arena].upper_bound({change.address, UINT64_MAX});
    if (of != segments_[arena].begin()) segment = std::prev(of)->second;
  }
  blocks_.emplace(change.address, static_cast<uint32_t>(found_.blocks.size()));
  const size_t in_table = arenas_[arena].arena;
  uses_.keep(in_table, change.address);
  found_.blocks.push_back({arena, segment, change.address, change.bytes,
                           static_cast<uint32_t>(change.holder), step, 0,
                           uses_.block_at(in_table, change.address)});
  in_use_[arena] += change.bytes;
}

void ArenaSteps::take_out(const ArenaBlockChange& change, uint32_t arena, uint32_t step) {
  auto [known, end] = blocks_.equal_range(change.address);
  known = std::find_if(known, end, [&](const auto& entry) {
    const ArenaHistory::Block& block = found_.blocks[entry.second];
    return block.arena == arena && block.bytes == change.bytes &&
           block.row == static_cast<uint32_t>(change.holder);
  });
  if (known == end) throw std::logic_error("pool history: a block ends that never began");
  found_.blocks[known->second].end = step;
  blocks_.erase(known);
  in_use_[arena] -= change.bytes;
}

bool ArenaSteps::finish(ArenaHistory& history) {
  if (too_many_) return false;
  const auto end = static_cast<uint32_t>(found_.steps.size());
  for (const auto& [address, block] : blocks_) found_.blocks[block].end = end;
  for (const auto& of_arena : segments_) {
    for (const auto& [key, segment] : of_arena) found_.segments[segment].end = end;
  }
  put_pieces(history, found_);
  return true;
}

}  // namespace gpupeak::collector
