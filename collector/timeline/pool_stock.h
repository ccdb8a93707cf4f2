// How pool_history.h finds out what pools had at chosen instants: it takes stock after these
// events, and of what was there at the one before, too, the history has one piece. A block's `row`
// is its group until pool_history() names it.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "collector/timeline/pool_steps.h"

namespace gpupeak::collector {

class PoolStock {
 public:
  using Chosen = std::map<uint64_t, std::string>;  ///< event → reason
  PoolStock(const PoolHistory& history, Chosen chosen, const ClockMap& clock);
  void after(const ArenaTable& table, uint64_t ticks) {
    if (next_ == chosen_.end() || next_->first != events_++) return;
    take(table, ticks);
    ++next_;
  }
  void finish(PoolHistory& history);

 private:
  struct Held {
    uint64_t address, bytes;
    GroupId group;
    bool alone;
    size_t segment = SIZE_MAX;  // of the pool's, in which it lies
    bool shown = false;
  };
  struct Piece {
    ArenaTable::Segment segment;
    bool shown = false;
  };
  /// What is there of a pool at an instant, and which of it is shown one by one.
  struct Stock {
    uint32_t pool = 0;
    std::vector<Held> held;       // the largest first
    std::vector<Piece> segments;  // by address
    std::vector<PoolHistory::Several> several;
  };
  using BlockKey = std::tuple<uint32_t, uint64_t, uint64_t, GroupId>;  // pool, address, bytes
  using SegmentKey = std::tuple<uint32_t, uint64_t, uint64_t, bool>;   // pool, begin, end
  template <typename Key>
  using Lives = std::map<Key, uint32_t>;  // index of what there was at the step before

  static BlockKey key(uint32_t pool, const Held& block) {
    return {pool, block.address, block.bytes, block.group};
  }
  uint32_t step() const { return static_cast<uint32_t>(found_.steps.size()); }
  /// A pool's part of what is left of so many at this instant: what earlier ones did not need is
  /// there for later ones.
  size_t share(size_t most, size_t used) const {
    return (most - std::min(most, used)) / (chosen_.size() - step()) / pools_.size();
  }
  void take(const ArenaTable& table, uint64_t ticks);
  Stock look(const ArenaTable& table, uint32_t pool, std::vector<Held> held) const;
  void choose(Stock& stock, uint64_t reserved, unsigned coarse) const;
  void join(Stock& stock, uint64_t shown_hole) const;
  void keep(const ArenaTable& table, Stock& stock);

  const std::vector<PoolHistory::Pool>& pools_;
  const PoolNumbers numbers_;
  const Chosen chosen_;
  Chosen::const_iterator next_;
  const ClockMap& clock_;
  PoolLevels levels_;
  PoolHistory found_;
  uint64_t events_ = 0;
  Lives<BlockKey> blocks_, blocks_before_;
  Lives<SegmentKey> segments_, segments_before_;
};

}  // namespace gpupeak::collector
