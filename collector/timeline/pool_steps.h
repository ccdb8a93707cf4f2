// How pool_history.h finds out what pools had at every instant, as long as there are few changes. A
// block's `row` is its group until pool_history() names it.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/timeline/pool_history.h"

namespace gpupeak::collector {

/// Numbers of the pools that a history has, by arena.
class PoolNumbers {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  explicit PoolNumbers(const PoolHistory& history);
  /// kNone: of an arena that the history does not have.
  uint32_t of(size_t arena) const { return arena < numbers_.size() ? numbers_[arena] : kNone; }

 private:
  std::vector<uint32_t> numbers_;
};

/// The pools' own figures, where they change.
class PoolLevels {
 public:
  explicit PoolLevels(const PoolHistory& history) : pools_(history.pools) {
    last_.resize(pools_.size());
  }
  void note(const ArenaTable& table, uint32_t step, std::vector<PoolHistory::Level>& levels);

 private:
  const std::vector<PoolHistory::Pool>& pools_;
  std::vector<ArenaTable::Level> last_;
};

/// The time of a history's next step; in damaged logs times run backwards.
int64_t history_time(const PoolHistory& history, int64_t ns);
/// Moves all that was found but the pools and their sites.
void put_pieces(PoolHistory& history, PoolHistory& found);

class PoolSteps {
 public:
  PoolSteps(const PoolHistory& history, const ClockMap& clock);
  void on_block(const PoolBlockChange& change) {
    if (!too_many_) pending_.push_back(change);
  }
  void after(const ArenaTable& table, uint64_t ticks);
  /// False: there are too many changes, and nothing was written.
  bool finish(PoolHistory& history);

 private:
  /// Ranges that were looked at in search of segments; so many take a second or two.
  static constexpr size_t kMostLooks = 50'000'000;
  using SegmentKey = std::pair<uint64_t, uint64_t>;  // begin, end

  void look_at_segments(const ArenaTable& table, uint32_t step);
  void put(const PoolBlockChange& change, uint32_t pool, uint32_t step);
  void take_out(const PoolBlockChange& change, uint32_t pool, uint32_t step);
  void give_up();

  const std::vector<PoolHistory::Pool>& pools_;
  const PoolNumbers numbers_;
  const ClockMap& clock_;
  PoolLevels levels_;
  PoolHistory found_;
  bool too_many_ = false;
  size_t changes_ = 0, looks_ = 0;
  uint64_t segments_version_ = 0;
  std::vector<PoolBlockChange> pending_;
  std::vector<std::map<SegmentKey, uint32_t>> segments_;  // by pool: those that there are now
  std::unordered_multimap<uint64_t, uint32_t> blocks_;    // by address: those in use now
  std::vector<uint64_t> in_use_;                          // by pool
};

}  // namespace gpupeak::collector
