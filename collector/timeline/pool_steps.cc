#include "collector/timeline/pool_steps.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace gpupeak::collector {
int64_t history_time(const PoolHistory& history, int64_t ns) {
  return history.steps.empty() ? ns : std::max(ns, history.steps.back().time_ns);
}

void put_pieces(PoolHistory& history, PoolHistory& found) {
  history.every = found.every;
  history.steps = std::move(found.steps);
  history.segments = std::move(found.segments);
  history.blocks = std::move(found.blocks);
  history.several = std::move(found.several);
  history.holes = std::move(found.holes);
  history.levels = std::move(found.levels);
}

PoolNumbers::PoolNumbers(const PoolHistory& history) {
  for (uint32_t pool = 0; pool < history.pools.size(); ++pool) {
    const size_t arena = history.pools[pool].arena;
    if (arena >= numbers_.size()) numbers_.resize(arena + 1, kNone);
    numbers_[arena] = pool;
  }
}

void PoolLevels::note(const ArenaTable& table, uint32_t step,
                      std::vector<PoolHistory::Level>& levels) {
  for (uint32_t pool = 0; pool < pools_.size(); ++pool) {
    if (pools_[pool].arena >= table.arenas().size()) continue;
    const ArenaTable::Level level = table.level(pools_[pool].arena);
    if (level.in_use == last_[pool].in_use && level.reserved == last_[pool].reserved) continue;
    last_[pool] = level;
    levels.push_back({step, pool, level.in_use, level.reserved});
  }
}

PoolSteps::PoolSteps(const PoolHistory& history, const ClockMap& clock)
    : pools_(history.pools), numbers_(history), clock_(clock), levels_(history) {
  segments_.resize(pools_.size());
  in_use_.resize(pools_.size());
  found_.every = true;
}

void PoolSteps::give_up() {
  too_many_ = true;
  found_ = {};
  pending_ = {};
  segments_ = {};
  blocks_ = {};
}

void PoolSteps::after(const ArenaTable& table, uint64_t ticks) {
  const bool moved = table.segments_version() != segments_version_;
  if (too_many_ || (!moved && pending_.empty())) return;
  const auto step = static_cast<uint32_t>(found_.steps.size());
  if (moved) look_at_segments(table, step);
  for (const PoolBlockChange& change : pending_) {
    const uint32_t pool = numbers_.of(table.holders()[change.group].arena);
    if (pool == PoolNumbers::kNone) continue;
    ++changes_;
    if (change.in_use) {
      put(change, pool, step);
    } else {
      take_out(change, pool, step);
    }
  }
  pending_.clear();
  for (uint32_t pool = 0; pool < pools_.size(); ++pool) {
    const size_t arena = pools_[pool].arena;
    const uint64_t expected = arena < table.arenas().size() ? table.level(arena).in_use : 0;
    if (in_use_[pool] != expected) {
      throw std::logic_error("pool history: blocks do not add up to what is in use");
    }
  }
  levels_.note(table, step, found_.levels);
  found_.steps.push_back({history_time(found_, clock_.to_ns(ticks)), ""});
  if (changes_ > kMaxPoolChanges || looks_ > kMostLooks) give_up();
}

void PoolSteps::look_at_segments(const ArenaTable& table, uint32_t step) {
  segments_version_ = table.segments_version();
  for (uint32_t pool = 0; pool < pools_.size(); ++pool) {
    if (pools_[pool].arena >= table.arenas().size()) continue;
    looks_ += table.range_count();
    std::map<SegmentKey, uint32_t> now;
    for (const auto& [begin, end, captured] : table.segments(pools_[pool].arena)) {
      const auto before = segments_[pool].find({begin, end});
      if (before != segments_[pool].end()) {
        now.insert(segments_[pool].extract(before));
        continue;
      }
      now[{begin, end}] = static_cast<uint32_t>(found_.segments.size());
      found_.segments.push_back({pool, begin, end - begin, captured, step, 0});
      ++changes_;
    }
    for (const auto& [key, gone] : segments_[pool]) found_.segments[gone].end = step;
    changes_ += segments_[pool].size();
    segments_[pool] = std::move(now);
  }
}

void PoolSteps::put(const PoolBlockChange& change, uint32_t pool, uint32_t step) {
  uint32_t segment = PoolHistory::Block::kAlone;
  if (!change.alone) {
    auto of = segments_[pool].upper_bound({change.address, UINT64_MAX});
    if (of != segments_[pool].begin()) segment = std::prev(of)->second;
  }
  blocks_.emplace(change.address, static_cast<uint32_t>(found_.blocks.size()));
  found_.blocks.push_back({pool, segment, change.address, change.bytes, change.group, step, 0});
  in_use_[pool] += change.bytes;
}

void PoolSteps::take_out(const PoolBlockChange& change, uint32_t pool, uint32_t step) {
  auto [known, end] = blocks_.equal_range(change.address);
  known = std::find_if(known, end, [&](const auto& entry) {
    const PoolHistory::Block& block = found_.blocks[entry.second];
    return block.pool == pool && block.bytes == change.bytes && block.row == change.group;
  });
  if (known == end) throw std::logic_error("pool history: a block ends that never began");
  found_.blocks[known->second].end = step;
  blocks_.erase(known);
  in_use_[pool] -= change.bytes;
}

bool PoolSteps::finish(PoolHistory& history) {
  if (too_many_) return false;
  const auto end = static_cast<uint32_t>(found_.steps.size());
  for (const auto& [address, block] : blocks_) found_.blocks[block].end = end;
  for (const auto& of_pool : segments_) {
    for (const auto& [key, segment] : of_pool) found_.segments[segment].end = end;
  }
  put_pieces(history, found_);
  return true;
}

}  // namespace gpupeak::collector
