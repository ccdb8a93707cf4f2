// The phases of one track that are open, the innermost last, or the ranges, the latest last. Any of
// them may end, whatever lies above it: it is found by what its end says of it, its key.
//
//   number    3         7          8
//   phase     load      step 1     step 2       key of a phase: source, instance; of a range: its
//   id
//
// Nothing here takes longer than the logarithm of how many are open: a small log can have tens of
// thousands.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "collector/replay/phase_fold.h"
#include "collector/replay/replay_observer.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

/// One instance of a phase, until it ends.
struct OpenPhase {
  using Bytes = std::array<uint64_t, kPhaseSides>;
  /// What a phase owns: bytes live, with all phases within; allocations, its own only.
  struct Owned {
    Bytes live_bytes{}, alloc_count{};
  };

  uint32_t phase = 0;  ///< PhaseId; 0: undecided
  PhaseLabel label;
  uint64_t range = 0;   ///< of ranges only
  uint64_t number = 0;  ///< of the phase's instances
  uint64_t begin_ticks = 0;
  Bytes start_bytes{};
  uint64_t since = 0;  ///< of the maxima at borders
  Owned owned;         ///< at the begin
  /// Of an undecided one: what the rule's phase owned at this one's begin, and its peak until then.
  Owned owned_by_rule;
  Bytes peak_of_rule{};
};

class OpenPhases {
 public:
  using Key = std::pair<uint64_t, uint64_t>;
  using Places = std::map<uint64_t, OpenPhase>;  // by number
  using Place = Places::iterator;

  bool empty() const { return places_.empty(); }
  Place begin() { return places_.begin(); }
  Place end() { return places_.end(); }
  Place innermost() { return std::prev(places_.end()); }
  const OpenPhase& innermost() const { return std::prev(places_.end())->second; }
  const Places& all() const { return places_; }

  /// `number`: larger than those before. No key: no end in the log means it.
  Place add(uint64_t number, const OpenPhase& open, std::optional<Key> key) {
    if (key) keys_.emplace(*key, number);
    if (open.label.source != GPUPEAK_PHASE_RULE) ++names_[open.label.name];
    return places_.emplace_hint(places_.end(), number, open);
  }
  /// The last that was added with this key, or end().
  Place find(Key key) {
    const auto after = keys_.upper_bound({key, UINT64_MAX});
    if (after == keys_.begin() || std::prev(after)->first != key) return places_.end();
    return places_.find(std::prev(after)->second);
  }
  Place find(uint64_t number) { return places_.find(number); }
  /// One that the program or a library opened, not a rule.
  bool has_name(uint32_t name) const { return names_.contains(name); }
  void erase(Place place, Key key) {
    keys_.erase({key, place->first});
    if (place->second.label.source != GPUPEAK_PHASE_RULE) {
      const auto name = names_.find(place->second.label.name);
      if (--name->second == 0) names_.erase(name);
    }
    places_.erase(place);
  }
  void clear() {
    places_.clear();
    keys_.clear();
    names_.clear();
  }

 private:
  Places places_;
  std::set<std::pair<Key, uint64_t>> keys_;  // with numbers
  std::unordered_map<uint32_t, size_t> names_;
};

}  // namespace gpupeak::collector
