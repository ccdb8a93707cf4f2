// Finds for arena_history.h what arenas had at every instant, as long as there are few changes. A
// block's `row` is its holder's number until arena_history() gives it a row.
#pragma once

#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/timeline/arena_history.h"
#include "collector/timeline/arena_uses.h"

namespace gpupeak::collector {

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

}  // namespace gpupeak::collector
