// Folds the instances of a repeated phase into rows as they end. Neighbours that are alike share a
// row; an odd one has a row of its own. However often a phase is repeated, there are at most
// kMaxRows rows. PhaseTree fills it, the summary reads it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/replay/replay_observer.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

// Sums that a damaged log may drive beyond 64 bits. They wrap around, as unsigned sums do: for
// plain signed ones that would be undefined.

inline int64_t wrapping_sum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

enum PhaseSide : uint8_t { kDeviceSide = 0, kHostSide = 1 };
inline constexpr size_t kPhaseSides = 2;

/// What the instances of one row were like, on one side.
struct FoldSide {
  uint64_t start_bytes = 0;  ///< at the begin of the first instance
  uint64_t peak_bytes = 0;   ///< the largest of all instances
  uint64_t end_bytes = 0;    ///< at the end of the last instance
  int64_t kept_bytes = 0;    ///< by how much the owned bytes grew, in all instances together
  uint64_t alloc_count = 0;  ///< of all together
  // Instances are told apart by two figures: what was retained (end - start), and how far the peak
  // rose above the start. These are the ranges of both.
  int64_t least_retained = 0, most_retained = 0;
  int64_t least_rise = 0, most_rise = 0;
};

struct FoldRow {
  uint64_t first = 0, last = 0;  ///< numbers of instances, from 1 on, by begin
  uint64_t count = 0;            ///< less than last - first + 1 where instances overlapped
  uint64_t begin_ticks = 0, end_ticks = 0;
  uint64_t open_ticks = 0;  ///< of all together
  bool open = false;        ///< one of them had no end before the log's
  std::array<FoldSide, kPhaseSides> sides;

  /// Whether all instances are the same, apart from a little noise on the host side.
  bool is_alike() const;
};

class PhaseFold {
 public:
  static constexpr size_t kMaxRows = 16;

  /// Adds a row that has one instance.
  void add(const FoldRow& instance);
  /// The rows by begin. Rows that can be joined without a loss are joined.
  std::vector<FoldRow> rows() const;

 private:
  std::vector<FoldRow> rows_;
};

// The largest of the values that came since a point in time, for any number of such points.
//
//   add()     5   9   3   7          now() before each: 0 1 2 3
//   since(0)  9   since(2)  7   since(3)  7   since(4)  0: nothing has come
//
// Only values that no later one reaches are kept, so they fall: 9 7. A value is added and removed
// once, and since() is a binary search, however many points there are.

class MaximumSince {
 public:
  /// The point in time between the values so far and the next.
  uint64_t now() const { return count_; }

  void add(uint64_t value) {
    while (!kept_.empty() && kept_.back().value <= value) kept_.pop_back();
    kept_.push_back({count_++, value});
  }

  uint64_t since(uint64_t point) const {
    const auto first = std::ranges::lower_bound(kept_, point, {}, &Kept::place);
    return first == kept_.end() ? 0 : first->value;
  }

 private:
  struct Kept {
    uint64_t place, value;
  };
  std::vector<Kept> kept_;
  uint64_t count_ = 0;
};

// The open phases of one track, the innermost last, or the open ranges, the latest last. Any of
// them may end, even below others: its end names it by a key.
//
//   number    3         7          8
//   phase     load      step 1     step 2
//   key       of a phase: source and instance; of a range: its id
//
// Nothing here takes longer than the logarithm of how many are open, since a small log can have
// tens of thousands.

/// One instance of a phase, until it ends.
struct OpenPhase {
  using Bytes = std::array<uint64_t, kPhaseSides>;
  using Key = std::pair<uint64_t, uint64_t>;
  /// What a phase owns: live bytes, also those of all phases within it; allocations of its own
  /// only.
  struct Owned {
    Bytes live_bytes{}, alloc_count{};
  };

  uint32_t phase = 0;  ///< PhaseId; 0: undecided (phase_tree.h)
  PhaseLabel label;
  std::optional<Key> key;  ///< none: no event of the log ends it
  uint64_t range = 0;      ///< the id of a range; else 0
  uint64_t number = 0;     ///< the number among the phase's instances
  uint64_t begin_ticks = 0;
  Bytes start_bytes{};
  uint64_t since = 0;  ///< when it began, as MaximumSince::now() of the borders
  Owned owned;         ///< when it began
  /// Of an undecided one: what the rule's phase owned when this one began, and its peak until then.
  Owned owned_by_rule;
  Bytes peak_of_rule{};
};

class OpenPhases {
 public:
  using Key = OpenPhase::Key;
  using Places = std::map<uint64_t, OpenPhase>;  // by number
  using Place = Places::iterator;

  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }
  Place begin() { return places_.begin(); }
  Place end() { return places_.end(); }
  Place innermost() { return std::prev(places_.end()); }
  const OpenPhase& innermost() const { return std::prev(places_.end())->second; }
  const Places& all() const { return places_; }

  /// `number` must be larger than those before.
  Place add(uint64_t number, const OpenPhase& open) {
    if (open.key) keys_.emplace(*open.key, number);
    if (open.label.source != GPUPEAK_PHASE_RULE) ++names_[open.label.name];
    return places_.emplace_hint(places_.end(), number, open);
  }
  /// The one that was added last with this key, or end().
  Place find(Key key) {
    const auto after = keys_.upper_bound({key, UINT64_MAX});
    if (after == keys_.begin() || std::prev(after)->first != key) return places_.end();
    return places_.find(std::prev(after)->second);
  }
  Place find(uint64_t number) { return places_.find(number); }
  /// Whether the program or a library, and not a rule, opened a phase of this name.
  bool has_name(uint32_t name) const { return names_.contains(name); }
  void erase(Place place) {
    const OpenPhase& open = place->second;
    if (open.key) keys_.erase({*open.key, place->first});
    if (open.label.source != GPUPEAK_PHASE_RULE && --names_[open.label.name] == 0)
      names_.erase(open.label.name);
    places_.erase(place);
  }
  void clear() {
    places_.clear();
    keys_.clear();
    names_.clear();
  }

 private:
  Places places_;
  std::set<std::pair<Key, uint64_t>> keys_;       // key and number of each
  std::unordered_map<uint32_t, uint32_t> names_;  // to how many have it
};

}  // namespace gpupeak::collector
