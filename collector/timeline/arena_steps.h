// Finds for arena_history.h what arenas had at every instant, as long as there are few changes. A
// block's `row` is its holder's number until arena_history() gives it a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/replay/replay_observer.h"
#include "collector/timeline/arena_history.h"
#include "collector/timeline/last_use.h"

namespace gpupeak::collector {

// The uses of arenas' blocks, for views that show some blocks at some instants. A log has a block's
// uses later than such an instant, mostly at the block's end, when another block may have its
// address. So each block gets a number, and only uses that will be asked for are kept.
class ArenaUses {
 public:
  static constexpr uint64_t kNone = 0;
  /// `on`: whether the log has uses. If not, this does nothing.
  explicit ArenaUses(bool on) : on_(on) {}

  bool on() const { return on_; }
  /// `arena`: its number in the replay.
  void on_block(const ArenaBlockChange& change, size_t arena);
  void on_used(const UsedEvent& used, uint64_t ticks);

  /// The number of the block that `address` is in now; kNone: none is followed. A use of an address
  /// within a block is the block's.
  uint64_t block_at(size_t arena, uint64_t address) const;
  /// Keeps the uses of the block at this address: they will be asked for.
  void keep(size_t arena, uint64_t address);
  /// The uses of a block that was kept. Call it when the log has ended.
  BlockUses of(uint64_t block) const;

 private:
  using Place = std::pair<size_t, uint64_t>;  ///< an arena and an address
  struct Live {
    uint64_t block = kNone, bytes = 0;
    bool is_kept = false;
    BlockUses uses;
  };

  std::map<Place, Live>::const_iterator live_at(size_t arena, uint64_t address) const;

  const bool on_;
  uint64_t last_block_ = kNone;
  std::map<uint64_t, size_t> arena_of_;  // by the log's number
  std::map<Place, Live> live_;
  std::unordered_map<uint64_t, BlockUses> ended_;
  std::unordered_map<uint64_t, Place> kept_live_;
};

/// The numbers that arenas have in a history, by their numbers in the replay.
class ArenaNumbers {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  explicit ArenaNumbers(const ArenaHistory& history);
  /// The history's number of an arena; kNone: it does not have it.
  uint32_t of(size_t arena) const { return arena < numbers_.size() ? numbers_[arena] : kNone; }

 private:
  std::vector<uint32_t> numbers_;
};

/// Notes the arenas' own figures at each step at which they change.
class ArenaLevels {
 public:
  explicit ArenaLevels(const ArenaHistory& history) : arenas_(history.arenas) {
    last_.resize(arenas_.size());
  }
  void note(const ArenaTable& table, uint32_t step, std::vector<ArenaHistory::Level>& levels);

 private:
  const std::vector<ArenaHistory::Arena>& arenas_;
  std::vector<ArenaTable::Level> last_;
};

/// The time of a history's next step. It never runs backwards, though times of damaged logs do.
int64_t history_time(const ArenaHistory& history, int64_t ns);
/// Moves all from `found` into `history`, except for the arenas and their sites.
void put_pieces(ArenaHistory& history, ArenaHistory& found);

class ArenaSteps {
 public:
  ArenaSteps(const ArenaHistory& history, const ClockMap& clock, ArenaUses& uses);
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
  void after(const ArenaTable& table, uint64_t ticks);
  /// Puts what was found into the history. False: there are too many changes, and nothing was put.
  bool finish(ArenaHistory& history);

 private:
  /// How many ranges may be looked at to find segments. That takes a second or two.
  static constexpr size_t kMostLooks = 50'000'000;
  using SegmentKey = std::pair<uint64_t, uint64_t>;  // begin, end

  void look_at_segments(const ArenaTable& table, uint32_t step);
  void put(const ArenaBlockChange& change, uint32_t arena, uint32_t step);
  void take_out(const ArenaBlockChange& change, uint32_t arena, uint32_t step);
  void give_up();

  const std::vector<ArenaHistory::Arena>& arenas_;
  const ArenaNumbers numbers_;
  const ClockMap& clock_;
  ArenaUses& uses_;
  ArenaLevels levels_;
  ArenaHistory found_;
  bool too_many_ = false;
  size_t changes_ = 0, looks_ = 0;
  uint64_t segments_version_ = 0;
  std::vector<ArenaBlockChange> pending_;
  std::vector<std::map<SegmentKey, uint32_t>> segments_;  // by arena: its segments now
  std::unordered_multimap<uint64_t, uint32_t> blocks_;    // by address: blocks in use now
  std::vector<uint64_t> in_use_;                          // by arena
};

// Finds for arena_history.h what arenas had at chosen instants: it takes stock after these events.
// A block or segment that is there at several such instants in a row is one piece of the history. A
// block's `row` is its holder's number until arena_history() gives it a row.
class ArenaStock {
 public:
  using Chosen = std::map<uint64_t, std::string>;  ///< event → reason
  ArenaStock(const ArenaHistory& history, Chosen chosen, const ClockMap& clock, ArenaUses& uses);
  void after(const ArenaTable& table, uint64_t ticks) {
    if (next_ == chosen_.end() || next_->first != events_++) return;
    take(table, ticks);
    ++next_;
  }
  void finish(ArenaHistory& history);

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
  uint32_t step() const { return static_cast<uint32_t>(found_.steps.size()); }
  /// How many of the pieces that are left an arena may show at this instant. What earlier arenas
  /// did not need is left for later ones.
  size_t share(size_t most, size_t used) const {
    return (most - std::min(most, used)) / (chosen_.size() - step()) / arenas_.size();
  }
  void take(const ArenaTable& table, uint64_t ticks);
  Stock look(const ArenaTable& table, uint32_t arena, std::vector<Held> held) const;
  void choose(Stock& stock, uint64_t reserved, unsigned coarse) const;
  void join(Stock& stock, uint64_t shown_hole) const;
  void keep(const ArenaTable& table, Stock& stock);

  const std::vector<ArenaHistory::Arena>& arenas_;
  const ArenaNumbers numbers_;
  const Chosen chosen_;
  Chosen::const_iterator next_;
  const ClockMap& clock_;
  ArenaUses& uses_;
  ArenaLevels levels_;
  ArenaHistory found_;
  uint64_t events_ = 0;
  Lives<BlockKey> blocks_, blocks_before_;
  Lives<SegmentKey> segments_, segments_before_;
};

}  // namespace gpupeak::collector
