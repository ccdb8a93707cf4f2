// The phases of a run. Each has the bytes at its borders and the peak within, on the device side
// and on the host side. Phases of the process (start, main, exit) are the base; every thread has a
// stack of its own on top. Replay calls it, the summary reads it.
//
//   bytes live, and the largest value between two borders:
//                100 ·180· 150 ·400· 120 ·120· 90
//   load         |=========================|          start 100  peak 400  end 90
//   └ weights            |=========|                  start 150  peak 400  end 120
//   ticks        10      20        30      40
//
// At each border (a begin or an end of any phase) the caller tells what is live now and the most
// that was live since the border before. The peak of a phase is the largest of these maxima since
// it began (MaximumSince), so that a border costs the same however many phases are open.
//
// A phase that is opened again under the same parent is the same phase. It is counted, its time
// runs from the first begin to the last end, and its peak is the largest of all; PhaseFold keeps
// the instances apart. Ranges are phases that overlap freely and that any thread may end. They hang
// below the process's phase and own no allocations.
//
// Phases of rules (rules/) have no begin and end in the log. Such a phase is open while the frame
// that it goes by is on the thread's stack, and only events with a stack show that. A phase that
// the program opens has no stack. So only the thread's next event tells whether that phase lies
// within the rule's phase or after it; until then it is undecided:
//
//   event      alloc in f()   push "step"   alloc in f()         or: alloc in g()
//   told       rule's begins  undecided     step lies within it  it ended where step began
//
// A thread may rest while others go on. If it has left the frame when it wakes, it counts as having
// left it with its last event before the rest, since waiting is not its work.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/replay/peak_finder.h"
#include "collector/replay/replay_observer.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

// Folds the instances of a repeated phase into rows as they end. Neighbours that are alike share a
// row; an odd one has a row of its own. However often a phase is repeated, there are at most
// kMaxRows rows. PhaseTree fills it, the summary reads it.

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

using PhaseId = uint32_t;  ///< index into PhaseTree::phases(); 0: outside of all phases

/// The source of phases of ONNX Runtime's nodes. No log has it, and it is none of
/// gpupeak_phase_source.
inline constexpr uint8_t kPhaseNode = 16;

/// The owner of what a phase allocates, on one side; PeakFinder adds it up. Side kPhaseSides is for
/// memory in no sum.
inline constexpr OwnerId owner_of(PhaseId phase, size_t side) {
  return static_cast<OwnerId>(phase * (kPhaseSides + 1) + side);
}

/// A begin or an end of a phase, with the sums at that time, on the device side and the host side.
struct PhaseMoment {
  uint64_t ticks = 0;
  std::array<uint64_t, kPhaseSides> now{};
  std::array<uint64_t, kPhaseSides> max{};  ///< the most since the border before
  /// By owner_of(); those that are missing own nothing.
  std::span<const PeakFinder::Owned> owned{};
};

/// Of a phase with one instance for each call: figures of the calls that have ended, on one side.
struct CallFigures {
  int64_t grown_bytes = 0;  ///< from the end of the first call to the end of the last
  /// The range of the growth from one call's end to the next one's. It needs two calls.
  int64_t least_growth = 0, most_growth = 0;
  uint64_t largest_rise = 0;  ///< the most by which a call's peak was above its start
  uint64_t largest = 0;       ///< the number of that call; of several, the first
  uint64_t largest_peak = 0;  ///< its peak

  void add_rise(uint64_t number, uint64_t start_bytes, uint64_t peak_bytes);
  void add_growth(uint64_t before_bytes, uint64_t end_bytes, bool is_first);
};

struct Phase : PhaseLabel {
  PhaseId parent = 0;
  uint64_t count = 0;
  uint64_t begin_ticks = 0, end_ticks = 0;
  uint64_t open_ticks = 0;  ///< of all its instances together
  uint32_t open = 0;  ///< how often it is open; not 0 after the last event: the log ended inside
  bool is_range = false;
  uint64_t ended_calls = 0;  ///< by_call: calls that ended before the log did
  std::array<uint64_t, kPhaseSides> ended_bytes{};  ///< live at the end of the last such call
  std::array<CallFigures, kPhaseSides> calls{};
  std::array<uint64_t, kPhaseSides> start_bytes{}, peak_bytes{}, end_bytes{};
  /// By how much its instances changed the bytes that it and the phases within it own.
  std::array<int64_t, kPhaseSides> kept_bytes{};
  std::vector<PhaseId> children;
  PhaseFold instances;
};

/// When one instance of a phase was open.
struct PhaseSpan {
  PhaseId phase = 0;
  uint64_t begin_ticks = 0, end_ticks = 0;
};

class GrowthTable;

class PhaseTree {
 public:
  static constexpr size_t kMaxSpans = 4000;
  /// The most phases of a log. Each takes some 5 KiB until it is reported. In a log it takes only a
  /// dozen bytes, and where phases lie within each other these repeat and pack well.
  static constexpr size_t kMostPhases = 100'000;
  /// The most ranges that are open at once. Each takes 300 bytes here and eight in a log.
  static constexpr size_t kMostOpenRanges = 1 << 20;

  /// `observer` is told of the phases and ranges that begin and end.
  explicit PhaseTree(ReplayObserver* observer = nullptr)
      : observer_(observer), phases_(1), links_(1) {}

  /// `growth` is told of the instances of phases at the moment when they begin or end. Call it
  /// before the first event. `growth` must outlive this.
  void watch(GrowthTable& growth) { growth_ = &growth; }

  PhaseId push(PhaseTrack track, const PhaseLabel& label, const PhaseMoment& at);
  /// Closes the track's innermost open phase with this source and instance, whatever its name. If
  /// there is none and the source is AUTO, it closes the innermost of all: older logs mean that. A
  /// pop without a push only adds to unbalanced_pops().
  void pop(PhaseTrack track, const PhaseLabel& label, const PhaseMoment& at);
  PhaseId begin_range(uint64_t range, const PhaseLabel& label, const PhaseMoment& at);
  void end_range(uint64_t range, const PhaseMoment& at);
  /// What the rules say of a stack.
  struct ByRule {
    uint32_t name = 0;           ///< 0: no rule matches the stack
    bool by_call = false;        ///< each call is an instance
    bool is_other_call = false;  ///< than at the thread's event before
  };
  /// set_rule(): the thread has an event with this stack. If the program itself has opened a phase
  /// of that name, that one stands for the rule's. settle_rule(): it has an event without a stack.
  void set_rule(uint32_t slot, ByRule rule, const PhaseMoment& at);
  void settle_rule(uint32_t slot, const PhaseMoment& at);
  /// For phases of rules: `at` was the last event of this slot's thread before others' events. If
  /// the frame is gone when the thread wakes, it left the frame at this event.
  void rest(uint32_t slot, const PhaseMoment& at);
  /// Call it after the first event of a thread that has rested.
  void wake(uint32_t slot);
  /// The thread of this slot has ended, and its phases with it.
  void end_thread(uint32_t slot, const PhaseMoment& at);
  /// Call it after the last event, with its time.
  void finish(const PhaseMoment& at);

  /// The phase of an allocation that this slot's thread makes now.
  PhaseId innermost(uint32_t slot) const;
  const std::vector<Phase>& phases() const { return phases_; }
  /// The instances by their ends, the first kMaxSpans.
  const std::vector<PhaseSpan>& spans() const { return spans_; }
  uint64_t unbalanced_pops() const { return unbalanced_pops_; }
  /// How many phases and ranges have no figures of their own, since there were too many others.
  /// What they did counts for the phase in which they lie.
  uint64_t left_out() const { return left_out_; }
  /// False: adding up what phases own would have taken too long, since too many lie within others.
  bool kept_is_known() const { return steps_ <= kMaxSteps; }

 private:
  using Bytes = OpenPhase::Bytes;
  using Owned = OpenPhase::Owned;
  using Place = OpenPhases::Place;
  /// So many steps take a second or two. Real logs need a thousandth of them.
  static constexpr uint64_t kMaxSteps = UINT64_C(1) << 28;
  /// The figures of a rule's phase at its thread's last event.
  struct Rest {
    uint64_t ticks;
    Bytes bytes, peak_bytes;
    Owned owned;
  };
  struct Thread {
    OpenPhases open;
    uint64_t left_out = 0;  ///< phases left out that are open, all above the others
    uint64_t rule = 0;      ///< the number of the open phase of a rule; 0: there is none
    std::optional<Rest> rest;
  };
  /// The end of an instance.
  struct End {
    uint64_t ticks;
    Bytes bytes;
    Owned owned;
    bool seen;  ///< false: only the log ended
  };

  PhaseId innermost_of(const Thread* thread) const;
  void border(const PhaseMoment& at);
  Owned owned(PhaseId phase, const PhaseMoment& at);
  bool leaves_out(const PhaseLabel& label, PhaseId parent, bool decided) const;
  PhaseId process_phase() const {
    return process_.open.empty() ? 0 : process_.open.innermost().phase;
  }
  /// Nodes are not watched for growth: what grows with each node grows with each run, and a model
  /// has hundreds of nodes.
  GrowthTable* growth_of(const OpenPhase& open) const {
    return open.label.source == kPhaseNode ? nullptr : growth_;
  }
  void enter(OpenPhase& open, PhaseId parent, const PhaseMoment& at);
  OpenPhase opened(const PhaseLabel& label, const PhaseMoment& at) const;
  void end_instance(const OpenPhase& open, const Bytes& peak, const End& end);
  static void count_call(Phase& phase, const OpenPhase& open, const Bytes& peak, const End& end);
  Bytes peak(const OpenPhase& open) const;
  static OpenPhases::Key key_of(const PhaseLabel& label) { return {label.source, label.instance}; }
  uint64_t add(OpenPhases& phases, OpenPhase& open, std::optional<OpenPhases::Key> key);
  void close(OpenPhases& phases, Place place, const PhaseMoment& at, bool seen);
  void close_range(const OpenPhase& range, const PhaseMoment& at, bool seen);
  void close_all(PhaseTrack track, OpenPhases& phases, const PhaseMoment& at, bool seen);
  void settle_within(Thread& thread, const PhaseMoment& at);
  void end_rule(uint32_t slot, Thread& thread, const PhaseMoment& at);
  void tell_begin(PhaseTrack track, const PhaseLabel& label, uint64_t ticks) {
    if (observer_ != nullptr) observer_->on_phase_begin(track, last_number_ + 1, label, ticks);
  }
  void tell_end(PhaseTrack track, uint64_t number, uint64_t ticks) {
    if (observer_ != nullptr) observer_->on_phase_end(track, number, ticks);
  }

  ReplayObserver* const observer_;
  GrowthTable* growth_ = nullptr;
  /// Where a phase lies among the others. It has as few bytes as possible, since many are gone
  /// through.
  struct Links {
    PhaseId parent = 0, last_child = 0, before = 0;  ///< before: its sibling
  };
  std::vector<Phase> phases_;
  std::vector<Links> links_;  // of the phases
  std::vector<PhaseSpan> spans_;
  std::map<std::tuple<PhaseId, uint32_t, uint8_t, uint64_t>, PhaseId> ids_;
  std::array<MaximumSince, kPhaseSides> maxima_;  // the maxima at borders
  uint64_t last_number_ = 0;                      // of all phases and ranges that were opened
  Thread process_;                                // what the process's phases are on; no rule is
  OpenPhases ranges_;
  std::map<uint32_t, Thread> threads_;  // by slot: threads that have had phases and have not ended
  uint64_t unbalanced_pops_ = 0;
  uint64_t left_out_ = 0;
  uint64_t steps_ = 0;  // from phase to phase, to add up what they own
};

}  // namespace gpupeak::collector
