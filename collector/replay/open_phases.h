// The phases of one track that are open, the innermost last, or the ranges, the latest last. Any of
// them may end, whatever lies above it: it is found by what its end says of it, its key.
//
//   number    3         7          8
//   phase     load      step 1     step 2       key of a phase: source, instance; of a range: its
//   id
//
// Nothing here takes longer than the logarithm of how many are open: a small log can have tens of
// thousands. Of a few, as most programs have them, it takes hardly anything.
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

#include "collector/replay/phase_fold.h"
#include "collector/replay/replay_observer.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

/// One instance of a phase, until it ends.
struct OpenPhase {
  using Bytes = std::array<uint64_t, kPhaseSides>;
  using Key = std::pair<uint64_t, uint64_t>;
  /// What a phase owns: bytes live, with all phases within; allocations, its own only.
  struct Owned {
    Bytes live_bytes{}, alloc_count{};
  };

  uint32_t phase = 0;  ///< PhaseId; 0: undecided
  PhaseLabel label;
  std::optional<Key> key;  ///< none: no end in the log means it
  uint64_t range = 0;      ///< of ranges only
  uint64_t number = 0;     ///< of the phase's instances
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

  /// `number`: larger than those before.
  Place add(uint64_t number, const OpenPhase& open) {
    const Place place = put(number, open);
    if (index_)
      index_->add(*place);
    else if (places_.size() > kFew)
      make_index();
    return place;
  }
  /// The last that was added with this key, or end().
  Place find(Key key) {
    if (index_) {
      const std::optional<uint64_t> number = index_->last(key);
      return number ? places_.find(*number) : places_.end();
    }
    for (Place place = places_.end(); place != places_.begin();) {
      if ((--place)->second.key == key) return place;
    }
    return places_.end();
  }
  Place find(uint64_t number) { return places_.find(number); }
  /// One that the program or a library opened, not a rule.
  bool has_name(uint32_t name) const {
    if (index_) return index_->names.contains(name);
    return std::any_of(places_.begin(), places_.end(), [name](const auto& place) {
      return place.second.label.name == name && place.second.label.source != GPUPEAK_PHASE_RULE;
    });
  }
  void erase(Place place) {
    if (index_) index_->remove(*place);
    spare_ = places_.extract(place);
    if (places_.empty()) index_.reset();
  }
  void clear() {
    places_.clear();
    index_.reset();
  }

 private:
  /// So many are gone through faster than an index is kept.
  static constexpr size_t kFew = 16;

  struct Index {
    std::set<std::pair<Key, uint64_t>> keys;  // with numbers
    std::unordered_map<uint32_t, size_t> names;

    void add(const Places::value_type& place) {
      const OpenPhase& open = place.second;
      if (open.key) keys.emplace(*open.key, place.first);
      if (open.label.source != GPUPEAK_PHASE_RULE) ++names[open.label.name];
    }
    void remove(const Places::value_type& place) {
      const OpenPhase& open = place.second;
      if (open.key) keys.erase({*open.key, place.first});
      if (open.label.source == GPUPEAK_PHASE_RULE) return;
      const auto name = names.find(open.label.name);
      if (--name->second == 0) names.erase(name);
    }
    std::optional<uint64_t> last(Key key) const {
      const auto after = keys.upper_bound({key, UINT64_MAX});
      if (after == keys.begin() || std::prev(after)->first != key) return std::nullopt;
      return std::prev(after)->second;
    }
  };

  Place put(uint64_t number, const OpenPhase& open) {
    if (spare_.empty()) return places_.emplace_hint(places_.end(), number, open);
    spare_.key() = number;
    spare_.mapped() = open;
    return places_.insert(places_.end(), std::move(spare_));
  }
  void make_index() {
    index_ = std::make_unique<Index>();
    for (const auto& place : places_) index_->add(place);
  }

  Places places_;
  Places::node_type spare_;  // of the last that ended: most loops open one phase again and again
  std::unique_ptr<Index> index_;  // where there are more than a few
};

}  // namespace gpupeak::collector
