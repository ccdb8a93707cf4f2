#include "collector/timeline/pool_steps.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace gpupeak::collector {
namespace {

int64_t later(int64_t ns, const std::vector<PoolHistory::Step>& steps) {
  return steps.empty() ? ns : std::max(ns, steps.back().time_ns);  // damaged logs run backwards
}

void move_into(PoolHistory& history, PoolHistory& found) {
  history.every = found.every;
  history.steps = std::move(found.steps);
  history.segments = std::move(found.segments);
  history.blocks = std::move(found.blocks);
  history.several = std::move(found.several);
  history.holes = std::move(found.holes);
  history.levels = std::move(found.levels);
}

}  // namespace

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

// Every change.

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
  found_.steps.push_back({later(clock_.to_ns(ticks), found_.steps), ""});
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
  move_into(history, found_);
  return true;
}

// Chosen instants.

PoolStock::PoolStock(const PoolHistory& history, Chosen chosen, const ClockMap& clock)
    : pools_(history.pools),
      numbers_(history),
      chosen_(std::move(chosen)),
      next_(chosen_.begin()),
      clock_(clock),
      levels_(history) {}

void PoolStock::take(const ArenaTable& table, uint64_t ticks) {
  const auto step = static_cast<uint32_t>(found_.steps.size());
  std::vector<std::vector<Held>> held(pools_.size());
  table.for_each_block([&](uint64_t address, uint64_t bytes, GroupId group, bool alone) {
    const uint32_t pool = numbers_.of(table.holders()[group].arena);
    if (pool != PoolNumbers::kNone) held[pool].push_back({address, bytes, group, alone});
  });
  blocks_before_ = std::move(blocks_);
  segments_before_ = std::move(segments_);
  blocks_.clear();
  segments_.clear();
  // What earlier instants did not need is there for the later ones.
  const size_t left = kMaxPoolBlocks - std::min(kMaxPoolBlocks, found_.blocks.size());
  const size_t most = left / (chosen_.size() - taken_) / pools_.size();
  for (uint32_t pool = 0; pool < pools_.size(); ++pool) {
    if (pools_[pool].arena < table.arenas().size()) take_pool(table, pool, held[pool], most);
  }
  ++taken_;
  levels_.note(table, step, found_.levels);
  found_.steps.push_back({later(clock_.to_ns(ticks), found_.steps), next_->second});
}

void PoolStock::take_pool(const ArenaTable& table, uint32_t pool, std::vector<Held>& held,
                          size_t most) {
  const auto step = static_cast<uint32_t>(found_.steps.size());
  const PoolHistory::Pool& of = pools_[pool];
  PoolHistory::Holes holes;
  holes.step = step;
  holes.pool = pool;
  const std::vector<ArenaTable::Segment> segments = table.segments(of.arena);
  for (const auto& [begin, end, captured] : segments) {
    const SegmentKey key{pool, begin, end, captured};
    const auto before = segments_before_.find(key);
    if (before != segments_before_.end()) {
      found_.segments[before->second].end = step + 1;
      segments_.insert(*before);
    } else if (found_.segments.size() < kMaxPoolSegments) {
      segments_.emplace(key, static_cast<uint32_t>(found_.segments.size()));
      found_.segments.push_back({pool, begin, end - begin, captured, step, step + 1});
    } else {
      ++holes.left_out_segments;
      holes.left_out_bytes += end - begin;
    }
  }
  // Which segment lies around an address; kAlone if it is left out.
  const auto segment_of = [&](uint64_t address) {
    auto around = segments_.upper_bound({pool, address, UINT64_MAX, true});
    if (around == segments_.begin()) return PoolHistory::Block::kAlone;
    --around;
    const auto& [owner, begin, end, captured] = around->first;
    return owner == pool && begin <= address && address < end ? around->second
                                                              : PoolHistory::Block::kAlone;
  };
  // The largest first; those that were there before cost nothing.
  std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) {
    return std::tuple(b.bytes, a.address, a.group) < std::tuple(a.bytes, b.address, b.group);
  });
  size_t added = 0;
  for (Held& block : held) {
    const uint32_t segment = block.alone ? PoolHistory::Block::kAlone : segment_of(block.address);
    if (!block.alone && segment == PoolHistory::Block::kAlone) continue;
    const BlockKey key{pool, block.address, block.bytes, block.group};
    const auto before = blocks_before_.find(key);
    if (before != blocks_before_.end() && !blocks_.contains(key)) {
      found_.blocks[before->second].end = step + 1;
      blocks_.insert(*before);
    } else if (added < most) {
      ++added;
      blocks_.emplace(key, static_cast<uint32_t>(found_.blocks.size()));
      found_.blocks.push_back(
          {pool, segment, block.address, block.bytes, block.group, step, step + 1});
    } else {
      continue;
    }
    block.shown = true;
  }
  const bool all_shown =
      std::all_of(held.begin(), held.end(), [](const Held& block) { return block.shown; });
  if (all_shown && holes.left_out_segments == 0) return;
  table.for_each_hole(of.arena, [&](uint64_t begin, uint64_t end, bool) {
    const uint64_t bytes = end - begin;
    holes.largest = std::max(holes.largest, bytes);
    if (bytes < of.largest_block) holes.below_block += bytes;
    if (bytes < of.largest_refused) holes.below_refused += bytes;
  });
  found_.holes.push_back(holes);
  add_several(pool, held, segments, table.level(of.arena).reserved / kShownHole);
}

void PoolStock::add_several(uint32_t pool, const std::vector<Held>& held,
                            const std::vector<ArenaTable::Segment>& segments, uint64_t shown_hole) {
  const auto step = static_cast<uint32_t>(found_.steps.size());
  std::vector<Held> by_address;
  PoolHistory::Several alone{step, pool, 0, 0, 0, 0};
  for (const Held& block : held) {
    if (!block.alone) {
      by_address.push_back(block);
    } else if (!block.shown) {
      alone.bytes += block.bytes;
      ++alone.count;
    }
  }
  if (alone.count > 0) found_.several.push_back(alone);
  std::sort(by_address.begin(), by_address.end(),
            [](const Held& a, const Held& b) { return a.address < b.address; });
  auto segment = segments.begin();
  PoolHistory::Several run{step, pool, 0, 0, 0, 0};
  const auto close_run = [&] {
    if (run.count > 0) found_.several.push_back(run);
    run = {step, pool, 0, 0, 0, 0};
  };
  for (const Held& block : by_address) {
    bool another = false;
    for (; segment != segments.end() && segment->end <= block.address; ++segment) another = true;
    if (another || block.shown || (run.count > 0 && block.address - run.end > shown_hole)) {
      close_run();
    }
    if (block.shown) continue;
    if (run.count == 0) run.begin = block.address;
    run.end = block.address + block.bytes;
    run.bytes += block.bytes;
    ++run.count;
  }
  close_run();
}

void PoolStock::finish(PoolHistory& history) {
  move_into(history, found_);
}

}  // namespace gpupeak::collector
