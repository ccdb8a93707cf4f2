#include <algorithm>
#include <iterator>
#include <map>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "collector/analyze/summary_parts.h"
#include "collector/timeline/instants.h"
#include "collector/timeline/last_use.h"

namespace gpupeak::collector {
namespace {

/// Makes a history step by step.
class HistoryMaker {
 protected:
  static constexpr uint32_t kNone = UINT32_MAX;

  HistoryMaker(const ArenaHistory& history, const ClockMap& clock, ArenaUses& uses)
      : arenas_(history.arenas), uses_(uses), clock_(clock), levels_(arenas_.size()) {}

  uint32_t step() const { return static_cast<uint32_t>(found_.steps.size()); }
  /// The history's number of an arena, by its number in the replay; kNone: it does not have it.
  uint32_t number_of(size_t in_table) const {
    const auto arena = std::ranges::lower_bound(arenas_, in_table, {}, &ArenaHistory::Arena::arena);
    return arena != arenas_.end() && arena->arena == in_table
               ? static_cast<uint32_t>(arena - arenas_.begin())
               : kNone;
  }
  /// Notes the arenas' own figures if they have changed. Times of a history never run backwards,
  /// though those of damaged logs do.
  void end_step(const ArenaTable& table, uint64_t ticks, const std::string& reason) {
    for (uint32_t arena = 0; arena < arenas_.size(); ++arena) {
      if (arenas_[arena].arena >= table.arenas().size()) continue;
      const ArenaTable::Level now = table.level(arenas_[arena].arena);
      ArenaTable::Level& last = levels_[arena];
      if (now.in_use == last.in_use && now.reserved == last.reserved) continue;
      last = now;
      found_.levels.push_back({step(), arena, now.in_use, now.reserved});
    }
    const int64_t ns = clock_.to_ns(ticks);
    found_.steps.push_back(
        {found_.steps.empty() ? ns : std::max(ns, found_.steps.back().time_ns), reason});
  }
  /// Moves all that was found into the history, except for the arenas and their sites.
  void put_into(ArenaHistory& history) {
    found_.arenas = std::move(history.arenas);
    history = std::move(found_);
  }

  const std::vector<ArenaHistory::Arena>& arenas_;
  ArenaUses& uses_;
  ArenaHistory found_;

 private:
  const ClockMap& clock_;
  std::vector<ArenaTable::Level> levels_;  // by arena: at the step before
};

// Finds what arenas had at every instant, as long as there are few changes. A block's `row` is its
// holder's number until arena_history() gives it a row.
class ArenaSteps : HistoryMaker {
 public:
  ArenaSteps(const ArenaHistory& history, const ClockMap& clock, ArenaUses& uses)
      : HistoryMaker(history, clock, uses) {
    segments_.resize(arenas_.size());
    in_use_.resize(arenas_.size());
    found_.every = true;
  }
  void on_block(const ArenaBlockChange& change) {
    if (too_many_) return;
    ArenaBlockChange piece = change;
    piece.parts = {};
    for (const PartOfBlock& part : change.parts) {
      piece.address = part.address;
      piece.bytes = part.bytes;
      piece.holder = part.holder;
      pending_.push_back(piece);
    }
    if (change.parts.empty()) pending_.push_back(piece);
  }
  void after(const ArenaTable& table, uint64_t ticks) {
    const bool moved = table.segments_version() != segments_version_;
    if (too_many_ || (!moved && pending_.empty())) return;
    if (moved) look_at_segments(table);
    for (const ArenaBlockChange& change : pending_) {
      const uint32_t arena = number_of(table.holder(change.holder).arena);
      if (arena == kNone) continue;
      ++changes_;
      if (change.in_use) {
        put(change, arena);
      } else {
        take_out(change, arena);
      }
    }
    pending_.clear();
    for (uint32_t arena = 0; arena < arenas_.size(); ++arena) {
      const size_t in_table = arenas_[arena].arena;
      const uint64_t expected = in_table < table.arenas().size() ? table.level(in_table).in_use : 0;
      if (in_use_[arena] != expected)
        throw std::logic_error("pool history: blocks do not add up to what is in use");
    }
    end_step(table, ticks, "");
    if (changes_ > kMaxArenaChanges || looks_ > kMostLooks) give_up();
  }
  /// Puts what was found into the history. False: there are too many changes, and nothing was put.
  bool finish(ArenaHistory& history) {
    if (too_many_) return false;
    for (const auto& [address, block] : blocks_) found_.blocks[block].end = step();
    for (const auto& of_arena : segments_) {
      for (const auto& [key, segment] : of_arena) found_.segments[segment].end = step();
    }
    put_into(history);
    return true;
  }

 private:
  /// How many ranges may be looked at to find segments. That takes a second or two.
  static constexpr size_t kMostLooks = 50'000'000;
  using SegmentKey = std::pair<uint64_t, uint64_t>;  // begin, end

  void look_at_segments(const ArenaTable& table) {
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
        found_.segments.push_back({arena, begin, end - begin, captured, step(), 0});
        ++changes_;
      }
      for (const auto& [key, gone] : segments_[arena]) found_.segments[gone].end = step();
      changes_ += segments_[arena].size();
      segments_[arena] = std::move(now);
    }
  }
  void put(const ArenaBlockChange& change, uint32_t arena) {
    uint32_t segment = ArenaHistory::Block::kAlone;
    if (!change.alone) {
      auto of = segments_[arena].upper_bound({change.address, UINT64_MAX});
      if (of != segments_[arena].begin()) segment = std::prev(of)->second;
    }
    blocks_.emplace(change.address, static_cast<uint32_t>(found_.blocks.size()));
    const size_t in_table = arenas_[arena].arena;
    uses_.keep(in_table, change.address);
    found_.blocks.push_back({arena, segment, change.address, change.bytes,
                             static_cast<uint32_t>(change.holder), step(), 0,
                             uses_.block_at(in_table, change.address)});
    in_use_[arena] += change.bytes;
  }
  void take_out(const ArenaBlockChange& change, uint32_t arena) {
    auto [known, end] = blocks_.equal_range(change.address);
    known = std::find_if(known, end, [&](const auto& entry) {
      const ArenaHistory::Block& block = found_.blocks[entry.second];
      return block.arena == arena && block.bytes == change.bytes &&
             block.row == static_cast<uint32_t>(change.holder);
    });
    if (known == end) throw std::logic_error("pool history: a block ends that never began");
    found_.blocks[known->second].end = step();
    blocks_.erase(known);
    in_use_[arena] -= change.bytes;
  }
  void give_up() {
    too_many_ = true;
    found_ = {};
    pending_ = {};
    segments_ = {};
    blocks_ = {};
  }

  bool too_many_ = false;
  size_t changes_ = 0, looks_ = 0;
  uint64_t segments_version_ = 0;
  std::vector<ArenaBlockChange> pending_;
  std::vector<std::map<SegmentKey, uint32_t>> segments_;  // by arena: its segments now
  std::unordered_multimap<uint64_t, uint32_t> blocks_;    // by address: blocks in use now
  std::vector<uint64_t> in_use_;                          // by arena
};

/// A hole between blocks that are left out ends a run of them if it has at least 1/256 of the
/// arena.
constexpr uint64_t kShownHole = 256;
/// If that makes too many runs: how many blocks and segments are shown at first. They are halved
/// until it fits.
constexpr size_t kCoarseBlocks = 8192, kCoarseSegments = 16'384;
constexpr unsigned kCoarsestLevel = 8;

// Finds what arenas had at chosen instants: it takes stock after these events.
// A block or segment that is there at several such instants in a row is one piece of the history. A
// block's `row` is its holder's number until arena_history() gives it a row.
class ArenaStock : HistoryMaker {
 public:
  using HistoryMaker::put_into;
  using Chosen = std::map<uint64_t, std::string>;  ///< event → reason
  ArenaStock(const ArenaHistory& history, Chosen chosen, const ClockMap& clock, ArenaUses& uses)
      : HistoryMaker(history, clock, uses), chosen_(std::move(chosen)), next_(chosen_.begin()) {}
  void after(const ArenaTable& table, uint64_t ticks) {
    if (next_ == chosen_.end() || next_->first != events_++) return;
    take(table, ticks);
    ++next_;
  }

 private:
  struct Held {
    uint64_t address, bytes;
    HolderId holder;
    bool alone;
    uint64_t number;  // ArenaUses' number: two blocks with uses of their own are two pieces
    size_t segment = SIZE_MAX;  // index into the arena's segments; SIZE_MAX: it lies in none
    bool shown = false;
  };
  struct Piece {
    ArenaTable::Segment segment;
    bool shown = false;
  };
  /// What an arena has at an instant, and which of its blocks are shown one by one.
  struct Stock {
    uint32_t arena = 0;
    std::vector<Held> held;       // the largest first
    std::vector<Piece> segments;  // by address
    std::vector<ArenaHistory::Several> several;
  };
  // arena, address, bytes, holder, number
  using BlockKey = std::tuple<uint32_t, uint64_t, uint64_t, HolderId, uint64_t>;
  using SegmentKey = std::tuple<uint32_t, uint64_t, uint64_t, bool>;  // arena, begin, end, captured
  template <typename Key>
  // By key: index of a piece that was there at the step before.
  using Lives = std::map<Key, uint32_t>;

  static BlockKey key(uint32_t arena, const Held& block) {
    return {arena, block.address, block.bytes, block.holder, block.number};
  }
  /// How many of the pieces that are left an arena may show at this instant. What earlier arenas
  /// did not need is left for later ones.
  size_t share(size_t most, size_t used) const {
    return (most - std::min(most, used)) / (chosen_.size() - step()) / arenas_.size();
  }
  void take(const ArenaTable& table, uint64_t ticks) {
    std::vector<std::vector<Held>> held(arenas_.size());
    table.for_each_block([&](uint64_t address, uint64_t bytes, HolderId holder, bool alone) {
      const size_t in_table = table.holder(holder).arena;
      const uint32_t arena = number_of(in_table);
      if (arena == kNone) return;
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
      for (unsigned coarse = 0; coarse <= kCoarsestLevel; ++coarse) {
        choose(stock, table.level(in_table).reserved, coarse);
        if (stock.several.size() <= most) break;
      }
      keep(table, stock);
    }
    end_step(table, ticks, next_->second);
  }
  Stock look(const ArenaTable& table, uint32_t arena, std::vector<Held> held) const {
    Stock stock;
    stock.arena = arena;
    for (const auto& segment : table.segments(arenas_[arena].arena))
      stock.segments.push_back({segment});
    for (Held& block : held) {
      if (block.alone) continue;
      const auto behind = std::ranges::upper_bound(
          stock.segments, block.address, {}, [](const Piece& of) { return of.segment.begin; });
      if (behind != stock.segments.begin())
        block.segment = static_cast<size_t>(behind - stock.segments.begin()) - 1;
    }
    std::ranges::sort(held, [](const Held& a, const Held& b) {
      return std::tuple(b.bytes, a.address, a.holder) < std::tuple(a.bytes, b.address, b.holder);
    });
    stock.held = std::move(held);
    return stock;
  }
  /// Chooses the largest pieces to be shown. Blocks that were not there before get only a share.
  /// `coarse`: how many times the numbers are halved, so that there are fewer runs of blocks that
  /// are not shown.
  void choose(Stock& stock, uint64_t reserved, unsigned coarse) const {
    const size_t most_segments = share(kMaxArenaSegments, found_.segments.size());
    std::vector<Piece*> largest = list_of(stock.segments, [](Piece& piece) { return &piece; });
    std::ranges::stable_sort(largest, std::greater(), [](const Piece* piece) {
      return piece->segment.end - piece->segment.begin;
    });
    size_t shown = 0, added = 0;
    const auto shows = [&](bool known, size_t most, size_t most_added) {
      const bool is_shown =
          (coarse == 0 || shown < most >> coarse) && (known || added < most_added);
      shown += is_shown ? 1 : 0;
      added += is_shown && !known ? 1 : 0;
      return is_shown;
    };
    for (Piece* piece : largest) {
      const auto& [begin, end, captured] = piece->segment;
      const bool known = segments_before_.contains({stock.arena, begin, end, captured});
      piece->shown = shows(known, kCoarseSegments, most_segments);
    }
    const size_t most_blocks = share(kMaxArenaBlocks, found_.blocks.size());
    shown = added = 0;
    for (Held& block : stock.held) {
      const bool known = blocks_before_.contains(key(stock.arena, block));
      const bool has_place =
          block.alone || (block.segment != SIZE_MAX && stock.segments[block.segment].shown);
      block.shown = has_place && shows(known, kCoarseBlocks, most_blocks);
    }
    join(stock, (reserved / kShownHole) << coarse);
  }
  /// Makes runs of neighbouring blocks that are not shown, in segments that are shown. A hole of
  /// `shown_hole` bytes ends a run.
  void join(Stock& stock, uint64_t shown_hole) const {
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
    std::ranges::sort(by_address, {}, &Held::address);
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
  void keep(const ArenaTable& table, Stock& stock) {
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
      if (before == segments_before_.end())
        found_.segments.push_back({stock.arena, begin, end - begin, captured, step(), 0});
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

  const Chosen chosen_;
  Chosen::const_iterator next_;
  uint64_t events_ = 0;
  Lives<BlockKey> blocks_, blocks_before_;
  Lives<SegmentKey> segments_, segments_before_;
};

using Chosen = ArenaStock::Chosen;

/// Chooses instants until there are enough, in this order: peaks of arenas and the end; other
/// instants that have a name; the highest moment of each arena in each of equal parts of the run.
Chosen choose(const ArenaHistory& history, const TimeSeries& times, const Instants& instants) {
  Chosen chosen;
  if (times.event_count() > 0) chosen[times.event_count() - 1] = "the end";
  std::vector<const Series*> courses;
  for (const ArenaHistory::Arena& arena : history.arenas) {
    const Series* series = times.arena_in_use(arena.arena);
    if (series == nullptr) continue;
    courses.push_back(series);
    const uint64_t event = TimeSeries::peak_event(*series);
    if (event == kNoEvent || chosen.size() >= kMaxArenaInstants / 4) continue;
    std::string& reason = chosen[event];
    reason += (reason.empty() ? "peak of " : ", ") + arena.name;
  }
  for (const Instant& instant : instants.instants) {
    if (instant.reason.empty() || chosen.size() >= kMaxArenaInstants * 3 / 4) continue;
    std::string& reason = chosen[instant.event];
    if (reason.empty()) reason = instant.reason;
  }
  if (courses.empty()) return chosen;
  const size_t slices = (kMaxArenaInstants - chosen.size()) / courses.size();
  for (const Series* series : courses) {
    for (const uint64_t event : TimeSeries::highest_events(*series, slices))
      chosen.try_emplace(event);
  }
  return chosen;
}

/// Notes every change, and takes stock at chosen events, in one replay: only at its end is it known
/// whether there are few enough changes.
class ArenaWatch : public ReplayObserver {
 public:
  ArenaWatch(const ArenaHistory& history, Chosen chosen, const ClockMap& clock, bool has_uses)
      : uses_(has_uses),
        steps_(history, clock, uses_),
        stock_(history, std::move(chosen), clock, uses_) {}
  void on_arena_block(const ArenaBlockChange& change) override {
    uses_.on_block(change, replay().arenas().holder(change.holder).arena);
    steps_.on_block(change);
  }
  void on_used(const UsedEvent& used, uint64_t ticks) override { uses_.on_used(used, ticks); }
  void after(const Event& event) override {
    steps_.after(replay().arenas(), event.ticks);
    stock_.after(replay().arenas(), event.ticks);
  }
  void finish(ArenaHistory& history) {
    if (!steps_.finish(history)) stock_.put_into(history);
  }
  const ArenaUses& uses() const { return uses_; }

 private:
  ArenaUses uses_;
  ArenaSteps steps_;
  ArenaStock stock_;
};

void add_uses(const ArenaUses& uses, const Profile& profile, ArenaHistory& history) {
  if (!uses.on()) return;
  for (const ArenaHistory::Block& block : history.blocks) {
    const BlockUses of = uses.of(block.number);
    ArenaHistory::Uses& in_ns = history.uses.emplace_back();
    in_ns.is_known = of.is_known;
    in_ns.count = of.count;
    if (of.count == 0) continue;
    in_ns.first_ns = profile.to_ns(of.first);
    in_ns.last_ns = profile.to_ns(of.last);
    in_ns.idle_since_ns = of.idle > 0 ? profile.to_ns(of.idle_since) : in_ns.first_ns;
    in_ns.idle_ns = of.idle > 0 ? profile.to_ns(of.idle_since + of.idle) - in_ns.idle_since_ns : 0;
  }
}

}  // namespace

ArenaHistory arena_history(Profile& profile, const TimeSeries& times, const Instants& instants,
                           const Progress& progress) {
  ArenaHistory history;
  const ArenaTable& table = profile.replay().arenas();
  for (size_t arena = 0; arena < table.arenas().size(); ++arena) {
    const ArenaTable::Arena& info = table.arenas()[arena];
    const PeakFinder::Scope& in_use = table.peaks().scope(info.scope);
    if (info.is_unused() || in_use.peak == 0) continue;
    history.arenas.push_back({arena, profile.definitions().shown(profile.replay().name(info.name)),
                              info.place, in_use.peak,
                              table.peaks().scope(info.reserved_scope).peak,
                              profile.to_ns(in_use.peak_ticks), info.largest_block,
                              info.largest_refused, info.has_older});
  }
  if (history.arenas.empty()) return history;
  ArenaWatch watch(history, choose(history, times, instants), profile.log().clock(),
                   has_uses(profile.definitions()));
  profile.replay_again(watch, progress);
  watch.finish(history);
  add_uses(watch.uses(), profile, history);
  // Until here a block's row is its holder's number. If the log is still being written, it may have
  // got holders since the first replay, which have no name yet.
  std::map<std::string, uint32_t> rows;
  std::map<uint32_t, uint32_t> row_of;
  for (ArenaHistory::Block& block : history.blocks) {
    const auto [known, fresh] = row_of.try_emplace(block.row);
    if (fresh) {
      const std::string title =
          block.row < table.holders().size()
              ? arena_holder_title(profile.replay(), profile.sites(), table.holders()[block.row])
              : "written later";
      const auto [row, added] = rows.try_emplace(title, static_cast<uint32_t>(history.rows.size()));
      if (added) history.rows.push_back(title);
      known->second = row->second;
    }
    block.row = known->second;
  }
  return history;
}

}  // namespace gpupeak::collector
