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

namespace {

/// A hole between blocks that are left out ends a run of them if it has at least 1/256 of the
/// arena.
constexpr uint64_t kShownHole = 256;
/// If that makes too many runs: how many blocks and segments are shown at first. They are halved
/// until it fits.
constexpr size_t kCoarseBlocks = 8192, kCoarseSegments = 16'384;
constexpr unsigned kCoarsest = 8;

}  // namespace

ArenaStock::ArenaStock(const ArenaHistory& history, Chosen chosen, const ClockMap& clock,
                       ArenaUses& uses)
    : arenas_(history.arenas),
      numbers_(history),
      chosen_(std::move(chosen)),
      next_(chosen_.begin()),
      clock_(clock),
      uses_(uses),
      levels_(history) {}

void ArenaStock::take(const ArenaTable& table, uint64_t ticks) {
  std::vector<std::vector<Held>> held(arenas_.size());
  table.for_each_block([&](uint64_t address, uint64_t bytes, HolderId holder, bool alone) {
    const size_t in_table = table.holder(holder).arena;
    const uint32_t arena = numbers_.of(in_table);
    if (arena == ArenaNumbers::kNone) return;
    held[arena].push_back({address, bytes, holder, alone, uses_.block_at(in_table, address)});
  });
  blocks_before_ = std::move(blocks_);
  segments_before_ = std::move(segments_);
  blocks_.clear();
  segments_.clear();
  for (uint32_t arena = 0; arena < arenas_.size(); ++arena) {
    const size_t in_table = arenas_[arena].arena;
    if (in_table >= table.arenas().size()) continue;
    Stock stock = look(table, arena, std::move(held[arena]));
    const size_t most = share(kMaxArenaSeveral, found_.several.size());
    for (unsigned coarse = 0; coarse <= kCoarsest; ++coarse) {
      choose(stock, table.level(in_table).reserved, coarse);
      if (stock.several.size() <= most) break;
    }
    keep(table, stock);
  }
  levels_.note(table, step(), found_.levels);
  found_.steps.push_back({history_time(found_, clock_.to_ns(ticks)), next_->second});
}

ArenaStock::Stock ArenaStock::look(const ArenaTable& table, uint32_t arena,
                                   std::vector<Held> held) const {
  Stock stock;
  stock.arena = arena;
  for (const auto& segment : table.segments(arenas_[arena].arena))
    stock.segments.push_back({segment});
  for (Held& block : held) {
    if (block.alone) continue;
    const auto behind = std::upper_bound(
        stock.segments.begin(), stock.segments.end(), block.address,
        [](uint64_t address, const Piece& piece) { return address < piece.segment.begin; });
    if (behind != stock.segments.begin()) {
      block.segment = static_cast<size_t>(behind - stock.segments.begin()) - 1;
    }
  }
  std::sort(held.begin(), held.end(), [](const Held& a, const Held& b) {
    return std::tuple(b.bytes, a.address, a.holder) < std::tuple(a.bytes, b.address, b.holder);
  });
  stock.held = std::move(held);
  return stock;
}

/// Chooses the largest pieces to be shown. Blocks that were not there before get only a share.
/// `coarse`: how many times the numbers are halved, so that there are fewer runs of blocks that are
/// not shown.
void ArenaStock::choose(Stock& stock, uint64_t reserved, unsigned coarse) const {
  const size_t most_segments = share(kMaxArenaSegments, found_.segments.size());
  std::vector<Piece*> largest;
  for (Piece& piece : stock.segments) largest.push_back(&piece);
  std::stable_sort(largest.begin(), largest.end(), [](const Piece* a, const Piece* b) {
    return a->segment.end - a->segment.begin > b->segment.end - b->segment.begin;
  });
  size_t shown = 0, added = 0;
  for (Piece* piece : largest) {
    const auto& [begin, end, captured] = piece->segment;
    const bool known = segments_before_.contains({stock.arena, begin, end, captured});
    piece->shown =
        (coarse == 0 || shown < kCoarseSegments >> coarse) && (known || added < most_segments);
    shown += piece->shown ? 1 : 0;
    added += piece->shown && !known ? 1 : 0;
  }
  const size_t most_blocks = share(kMaxArenaBlocks, found_.blocks.size());
  shown = added = 0;
  for (Held& block : stock.held) {
    const bool known = blocks_before_.contains(key(stock.arena, block));
    const bool has_place =
        block.alone || (block.segment != SIZE_MAX && stock.segments[block.segment].shown);
    block.shown = has_place && (coarse == 0 || shown < kCoarseBlocks >> coarse) &&
                  (known || added < most_blocks);
    shown += block.shown ? 1 : 0;
    added += block.shown && !known ? 1 : 0;
  }
  join(stock, (reserved / kShownHole) << coarse);
}

/// Makes runs of neighbouring blocks that are not shown, in segments that are shown. A hole of
/// `shown_hole` bytes ends a run.
void ArenaStock::join(Stock& stock, uint64_t shown_hole) const {
  const ArenaHistory::Several none{step(), stock.arena, 0, 0, 0, 0};
  stock.several.clear();
  std::vector<const Held*> by_address;
  ArenaHistory::Several alone = none;
  for (const Held& block : stock.held) {
    if (!block.alone) {
      if (block.segment != SIZE_MAX) by_address.push_back(&block);
    } else if (!block.shown) {
      alone.bytes += block.bytes;
      ++alone.count;
    }
  }
  if (alone.count > 0) stock.several.push_back(alone);
  std::sort(by_address.begin(), by_address.end(),
            [](const Held* a, const Held* b) { return a->address < b->address; });
  ArenaHistory::Several run = none;
  size_t segment = SIZE_MAX;
  const auto close_run = [&] {
    if (run.count > 0) stock.several.push_back(run);
    run = none;
  };
  for (const Held* block : by_address) {
    if (!stock.segments[block->segment].shown) continue;
    const bool far = run.count > 0 && block->address - run.end > shown_hole;
    if (block->segment != segment || block->shown || far) close_run();
    segment = block->segment;
    if (block->shown) continue;
    if (run.count == 0) run.begin = block->address;
    run.end = block->address + block->bytes;
    run.bytes += block->bytes;
    ++run.count;
  }
  close_run();
}

void ArenaStock::keep(const ArenaTable& table, Stock& stock) {
  const ArenaHistory::Arena& of = arenas_[stock.arena];
  ArenaHistory::Holes holes;
  holes.step = step();
  holes.arena = stock.arena;
  bool all_shown = true;
  std::vector<uint32_t> number(stock.segments.size(), ArenaHistory::Block::kAlone);
  for (size_t i = 0; i < stock.segments.size(); ++i) {
    const auto& [begin, end, captured] = stock.segments[i].segment;
    if (!stock.segments[i].shown) {
      ++holes.left_out_segments;
      holes.left_out_bytes += end - begin;
      continue;
    }
    const SegmentKey segment{stock.arena, begin, end, captured};
    const auto before = segments_before_.find(segment);
    number[i] = before != segments_before_.end() ? before->second
                                                 : static_cast<uint32_t>(found_.segments.size());
    if (before == segments_before_.end()) {
      found_.segments.push_back({stock.arena, begin, end - begin, captured, step(), 0});
    }
    found_.segments[number[i]].end = step() + 1;
    segments_.emplace(segment, number[i]);
  }
  for (const Held& block : stock.held) {
    all_shown = all_shown && block.shown;
    if (!block.shown) continue;
    const auto before = blocks_before_.find(key(stock.arena, block));
    if (before != blocks_before_.end() && blocks_.insert(*before).second) {
      found_.blocks[before->second].end = step() + 1;
      continue;
    }
    blocks_.emplace(key(stock.arena, block), static_cast<uint32_t>(found_.blocks.size()));
    uses_.keep(of.arena, block.address);
    found_.blocks.push_back({stock.arena,
                             block.alone ? ArenaHistory::Block::kAlone : number[block.segment],
                             block.address, block.bytes, static_cast<uint32_t>(block.holder),
                             step(), step() + 1, block.number});
  }
  found_.several.insert(found_.several.end(), stock.several.begin(), stock.several.end());
  if (all_shown && holes.left_out_segments == 0) return;
  table.for_each_hole(of.arena, [&](uint64_t begin, uint64_t end, bool) {
    const uint64_t bytes = end - begin;
    holes.largest = std::max(holes.largest, bytes);
    if (bytes < of.largest_block) holes.below_block += bytes;
    if (bytes < of.largest_refused) holes.below_refused += bytes;
  });
  found_.holes.push_back(holes);
}

void ArenaStock::finish(ArenaHistory& history) {
  put_pieces(history, found_);
}

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
