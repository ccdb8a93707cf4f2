// Finds for arena_history.h what arenas had at chosen instants: it takes stock after these events.
// A block or segment that is there at several such instants in a row is one piece of the history. A
// block's `row` is its holder's number until arena_history() gives it a row.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "collector/timeline/arena_steps.h"

namespace gpupeak::collector {

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
