#include "collector/replay/phase_tree.h"

#include "collector/replay/growth_table.h"

namespace gpupeak::collector {
namespace {

/// The heap of real programs differs a little from instance to instance; device memory does not.
constexpr int64_t kHostNoiseBytes = 64 << 10;
constexpr int64_t kHostNoisePart = 64;

/// Exact for all `least` <= `most`, even as far apart as in a damaged log.
uint64_t distance(int64_t least, int64_t most) {
  return static_cast<uint64_t>(most) - static_cast<uint64_t>(least);
}

/// How far apart the instances of a row are.
uint64_t width(const FoldRow& row) {
  uint64_t widest = 0;
  for (const FoldSide& side : row.sides) {
    widest = std::max({widest, distance(side.least_retained, side.most_retained),
                       distance(side.least_rise, side.most_rise)});
  }
  return widest;
}

void join(FoldSide& to, const FoldSide& next) {
  to.peak_bytes = std::max(to.peak_bytes, next.peak_bytes);
  to.end_bytes = next.end_bytes;
  to.kept_bytes = wrapping_sum(to.kept_bytes, next.kept_bytes);
  to.alloc_count += next.alloc_count;
  to.least_retained = std::min(to.least_retained, next.least_retained);
  to.most_retained = std::max(to.most_retained, next.most_retained);
  to.least_rise = std::min(to.least_rise, next.least_rise);
  to.most_rise = std::max(to.most_rise, next.most_rise);
}

FoldRow joined(const FoldRow& row, const FoldRow& next) {
  FoldRow both = row;
  if (next.first < row.first) {
    for (size_t side = 0; side < kPhaseSides; ++side)
      both.sides[side].start_bytes = next.sides[side].start_bytes;
  }
  both.first = std::min(row.first, next.first);
  both.last = std::max(row.last, next.last);
  both.count += next.count;
  both.begin_ticks = std::min(row.begin_ticks, next.begin_ticks);
  both.end_ticks = std::max(row.end_ticks, next.end_ticks);
  both.open_ticks += next.open_ticks;
  both.open = row.open || next.open;
  for (size_t side = 0; side < kPhaseSides; ++side) join(both.sides[side], next.sides[side]);
  return both;
}

/// How much the range of a row grows if these two are joined.
uint64_t loss(const FoldRow& row, const FoldRow& next) {
  return width(joined(row, next)) - std::max(width(row), width(next));
}

}  // namespace

bool FoldRow::is_alike() const {
  for (size_t i = 0; i < kPhaseSides; ++i) {
    const FoldSide& side = sides[i];
    const auto noise = static_cast<uint64_t>(
        i == kHostSide ? std::max(kHostNoiseBytes, side.most_rise / kHostNoisePart) : 0);
    if (distance(side.least_retained, side.most_retained) > noise) return false;
    if (distance(side.least_rise, side.most_rise) > noise) return false;
  }
  return true;
}

void PhaseFold::add(const FoldRow& instance) {
  if (!rows_.empty()) {
    const FoldRow both = joined(rows_.back(), instance);
    const bool swallowed = !rows_.back().is_alike() && loss(rows_.back(), instance) == 0;
    if (both.is_alike() || swallowed) {
      rows_.back() = both;
      return;
    }
  }
  rows_.push_back(instance);
  if (rows_.size() <= kMaxRows) return;
  // Joins the two neighbours that differ least; of equal ones, those with the fewest instances.
  size_t best = 0;
  const auto cost = [&](size_t i) {
    return std::pair(loss(rows_[i], rows_[i + 1]), rows_[i].count + rows_[i + 1].count);
  };
  for (size_t i = 1; i + 1 < rows_.size(); ++i) {
    if (cost(i) < cost(best)) best = i;
  }
  rows_[best] = joined(rows_[best], rows_[best + 1]);
  rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
}

std::vector<FoldRow> PhaseFold::rows() const {
  std::vector<FoldRow> rows;
  for (const FoldRow& row : rows_) {
    const bool lossless = !rows.empty() && !rows.back().is_alike() && loss(rows.back(), row) == 0;
    if (lossless) {
      rows.back() = joined(rows.back(), row);
    } else {
      rows.push_back(row);
    }
  }
  // Instances in several threads may end in another order than they began.
  std::ranges::stable_sort(rows, {}, &FoldRow::first);
  return rows;
}

PhaseId PhaseTree::innermost(uint32_t slot) const {
  return innermost_of(value_in(threads_, slot));
}

PhaseId PhaseTree::innermost_of(const Thread* thread) const {
  if (thread != nullptr) {
    const OpenPhases::Places& open = thread->open.all();
    for (auto place = open.rbegin(); place != open.rend(); ++place) {
      if (place->second.phase != 0) return place->second.phase;
    }
  }
  return process_phase();
}

void PhaseTree::border(const PhaseMoment& at) {
  for (size_t side = 0; side < kPhaseSides; ++side) maxima_[side].add(at.max[side]);
}

PhaseTree::Bytes PhaseTree::peak(const OpenPhase& open) const {
  Bytes peak = open.start_bytes;
  for (size_t side = 0; side < kPhaseSides; ++side)
    peak[side] = std::max(peak[side], maxima_[side].since(open.since));
  return peak;
}

PhaseTree::Owned PhaseTree::owned(PhaseId phase, const PhaseMoment& at) {
  Owned sum;
  const auto of = [&](PhaseId id, size_t side) {
    const OwnerId owner = owner_of(id, side);
    return owner < at.owned.size() ? at.owned[owner] : PeakFinder::Owned{};
  };
  for (size_t side = 0; side < kPhaseSides; ++side) {
    sum.live_bytes[side] = of(phase, side).live_bytes;
    sum.alloc_count[side] = of(phase, side).alloc_count;
  }
  if (!kept_is_known()) return sum;
  for (PhaseId id = links_[phase].last_child; id != 0;) {
    ++steps_;
    for (size_t side = 0; side < kPhaseSides; ++side)
      sum.live_bytes[side] += of(id, side).live_bytes;
    if (links_[id].last_child != 0) {
      id = links_[id].last_child;
      continue;
    }
    while (id != phase && links_[id].before == 0) id = links_[id].parent;
    id = id == phase ? 0 : links_[id].before;
  }
  return sum;
}

OpenPhase PhaseTree::opened(const PhaseLabel& label, const PhaseMoment& at) const {
  OpenPhase open;
  open.label = label;
  open.begin_ticks = at.ticks;
  open.start_bytes = at.now;
  open.since = maxima_[0].now();
  return open;
}

/// Decides which phase this instance is of, and begins the instance.
void PhaseTree::enter(OpenPhase& open, PhaseId parent, const PhaseMoment& at) {
  const auto [entry, added] =
      ids_.try_emplace({parent, open.label.name, open.label.source, open.label.instance},
                       static_cast<PhaseId>(phases_.size()));
  const PhaseId id = entry->second;
  if (added) {
    Phase& fresh = phases_.emplace_back();
    static_cast<PhaseLabel&>(fresh) = open.label;
    fresh.parent = parent;
    fresh.begin_ticks = open.begin_ticks;
    fresh.start_bytes = open.start_bytes;
    phases_[parent].children.push_back(id);
    links_.push_back({parent, 0, links_[parent].last_child});
    links_[parent].last_child = id;
  }
  open.phase = id;
  open.number = ++phases_[id].count;
  ++phases_[id].open;
  open.owned = owned(id, at);
  if (GrowthTable* growth = growth_of(open))
    growth->instance_began(id, open.number, open.begin_ticks);
}

uint64_t PhaseTree::add(OpenPhases& phases, OpenPhase& open, std::optional<OpenPhases::Key> key) {
  open.key = key;
  return phases.add(++last_number_, open)->first;
}

/// Whether there are too many phases for this one. Whether an undecided one will be new is not
/// known, so it is left out, too.
bool PhaseTree::leaves_out(const PhaseLabel& label, PhaseId parent, bool decided) const {
  if (phases_.size() < kMostPhases) return false;
  return !decided || !ids_.contains({parent, label.name, label.source, label.instance});
}

PhaseId PhaseTree::push(PhaseTrack track, const PhaseLabel& label, const PhaseMoment& at) {
  border(at);
  Thread& thread = track.of_process ? process_ : threads_[track.slot];
  const bool decided = thread.rule == 0;
  // start, main and exit follow one another, whatever is open above them.
  const bool is_base = track.of_process && label.source == GPUPEAK_PHASE_AUTO;
  const PhaseId parent = is_base ? 0 : innermost_of(&thread);
  // A phase within one that is left out is left out, too, so that each end finds its own begin.
  if (thread.left_out > 0 || leaves_out(label, parent, decided)) {
    ++thread.left_out;
    ++left_out_;
    return parent;
  }
  tell_begin(track, label, at.ticks);
  OpenPhase open = opened(label, at);
  if (decided) {
    enter(open, parent, at);
  } else {
    const OpenPhase& by_rule = thread.open.find(thread.rule)->second;
    open.owned_by_rule = owned(by_rule.phase, at);
    open.peak_of_rule = peak(by_rule);
  }
  add(thread.open, open, key_of(label));
  return open.phase;
}

void CallFigures::add_rise(uint64_t number, uint64_t start_bytes, uint64_t peak_bytes) {
  const uint64_t rise = peak_bytes - start_bytes;
  if (largest != 0 && rise <= largest_rise) return;
  largest = number;
  largest_rise = rise;
  largest_peak = peak_bytes;
}

void CallFigures::add_growth(uint64_t before_bytes, uint64_t end_bytes, bool is_first) {
  const auto growth = static_cast<int64_t>(end_bytes - before_bytes);
  grown_bytes = wrapping_sum(grown_bytes, growth);
  least_growth = is_first ? growth : std::min(least_growth, growth);
  most_growth = is_first ? growth : std::max(most_growth, growth);
}

void PhaseTree::count_call(Phase& phase, const OpenPhase& open, const Bytes& peak, const End& end) {
  for (size_t side = 0; side < kPhaseSides; ++side) {
    CallFigures& figures = phase.calls[side];
    figures.add_rise(open.number, open.start_bytes[side], peak[side]);
    if (end.seen && phase.ended_calls > 0)
      figures.add_growth(phase.ended_bytes[side], end.bytes[side], phase.ended_calls == 1);
  }
  if (!end.seen) return;
  ++phase.ended_calls;
  phase.ended_bytes = end.bytes;
}

void PhaseTree::end_instance(const OpenPhase& open, const Bytes& peak, const End& end) {
  Phase& phase = phases_[open.phase];
  if (phase.by_call) count_call(phase, open, peak, end);
  phase.end_ticks = end.ticks;
  phase.end_bytes = end.bytes;
  if (end.seen) --phase.open;
  FoldRow row;
  row.first = row.last = open.number;
  row.count = 1;
  row.begin_ticks = open.begin_ticks;
  row.end_ticks = end.ticks;
  row.open_ticks = end.ticks > open.begin_ticks ? end.ticks - open.begin_ticks : 0;
  row.open = !end.seen;
  phase.open_ticks += row.open_ticks;
  for (size_t i = 0; i < kPhaseSides; ++i) {
    FoldSide& side = row.sides[i];
    side.start_bytes = open.start_bytes[i];
    side.peak_bytes = peak[i];
    side.end_bytes = end.bytes[i];
    side.kept_bytes = static_cast<int64_t>(end.owned.live_bytes[i] - open.owned.live_bytes[i]);
    side.alloc_count = end.owned.alloc_count[i] - open.owned.alloc_count[i];
    side.least_retained = side.most_retained =
        static_cast<int64_t>(side.end_bytes - side.start_bytes);
    side.least_rise = side.most_rise = static_cast<int64_t>(side.peak_bytes - side.start_bytes);
    phase.peak_bytes[i] = std::max(phase.peak_bytes[i], peak[i]);
    phase.kept_bytes[i] = wrapping_sum(phase.kept_bytes[i], side.kept_bytes);
  }
  phase.instances.add(row);
  if (GrowthTable* growth = growth_of(open); growth != nullptr && end.seen)
    growth->instance_ended(open.phase, open.number, end.ticks);
  if (spans_.size() < kMaxSpans) spans_.push_back({open.phase, row.begin_ticks, row.end_ticks});
}

void PhaseTree::close(OpenPhases& phases, Place place, const PhaseMoment& at, bool seen) {
  const OpenPhase& open = place->second;
  end_instance(open, peak(open), {at.ticks, at.now, owned(open.phase, at), seen});
  phases.erase(place);
}

void PhaseTree::close_all(PhaseTrack track, OpenPhases& phases, const PhaseMoment& at, bool seen) {
  while (!phases.empty()) {
    tell_end(track, phases.innermost()->first, at.ticks);
    close(phases, phases.innermost(), at, seen);
  }
}

/// Phases that were opened since lie within the rule's phase: decides those that are undecided.
/// They all lie above the decided ones.
void PhaseTree::settle_within(Thread& thread, const PhaseMoment& at) {
  Place place = thread.open.end();
  while (place != thread.open.begin() && std::prev(place)->second.phase == 0) --place;
  PhaseId parent = place == thread.open.begin() ? process_phase() : std::prev(place)->second.phase;
  for (; place != thread.open.end(); ++place) {
    enter(place->second, parent, at);
    parent = place->second.phase;
  }
}

/// The rule's frame has gone, and had gone before the phases that are undecided were opened.
void PhaseTree::end_rule(uint32_t slot, Thread& thread, const PhaseMoment& at) {
  if (thread.rule == 0) return;
  const Place rule = thread.open.find(thread.rule);
  thread.rule = 0;
  // The observer has been told of the phases above already, so for it this one ends no earlier than
  // now, or than the rest began.
  tell_end(of_thread(slot), rule->first, thread.rest ? thread.rest->ticks : at.ticks);
  const OpenPhase& open = rule->second;
  const Place above = std::next(rule);
  if (above != thread.open.end() && above->second.phase == 0) {
    const OpenPhase& next = above->second;
    end_instance(open, next.peak_of_rule,
                 {next.begin_ticks, next.start_bytes, next.owned_by_rule, true});
    thread.open.erase(rule);
  } else if (thread.rest) {
    const Rest& rest = *thread.rest;
    end_instance(open, rest.peak_bytes, {rest.ticks, rest.bytes, rest.owned, true});
    thread.open.erase(rule);
  } else {
    close(thread.open, rule, at, true);
  }
  settle_within(thread, at);
}

void PhaseTree::rest(uint32_t slot, const PhaseMoment& at) {
  border(at);
  Thread* const thread = value_in(threads_, slot);
  if (thread == nullptr || thread->rule == 0) return;
  const OpenPhase& open = thread->open.find(thread->rule)->second;
  thread->rest = {at.ticks, at.now, peak(open), owned(open.phase, at)};
}

void PhaseTree::wake(uint32_t slot) {
  if (Thread* const thread = value_in(threads_, slot)) thread->rest.reset();
}

void PhaseTree::set_rule(uint32_t slot, ByRule rule, const PhaseMoment& at) {
  border(at);
  uint32_t name = rule.name;
  const auto known = threads_.find(slot);
  if (known == threads_.end() && name == 0) return;
  Thread& thread = known == threads_.end() ? threads_[slot] : known->second;
  if (thread.open.has_name(name)) name = 0;
  if (thread.rule != 0 && !rule.is_other_call &&
      thread.open.find(thread.rule)->second.label.name == name) {
    settle_within(thread, at);
    return;
  }
  end_rule(slot, thread, at);
  if (name == 0) return;
  const PhaseLabel label{name, GPUPEAK_PHASE_RULE, 0, rule.by_call};
  const PhaseId parent = innermost_of(&thread);
  if (leaves_out(label, parent, true)) {
    ++left_out_;
    return;
  }
  tell_begin(of_thread(slot), label, at.ticks);
  OpenPhase open = opened(label, at);
  enter(open, parent, at);
  thread.rule = add(thread.open, open, std::nullopt);
}

void PhaseTree::settle_rule(uint32_t slot, const PhaseMoment& at) {
  border(at);
  if (Thread* const thread = value_in(threads_, slot)) settle_within(*thread, at);
}

void PhaseTree::pop(PhaseTrack track, const PhaseLabel& label, const PhaseMoment& at) {
  border(at);
  const auto own = threads_.find(track.slot);
  if (!track.of_process && own == threads_.end()) {
    ++unbalanced_pops_;
    return;
  }
  Thread& thread = track.of_process ? process_ : own->second;
  if (thread.left_out > 0) {
    --thread.left_out;
    return;
  }
  OpenPhases& open = thread.open;
  Place meant = open.find(key_of(label));
  if (meant == open.end() && label.source == GPUPEAK_PHASE_AUTO && !open.empty()) {
    meant = open.innermost();
    if (meant->first == thread.rule) meant = meant == open.begin() ? open.end() : std::prev(meant);
  }
  if (meant == open.end()) {
    ++unbalanced_pops_;
    return;
  }
  if (thread.rule != 0) {
    settle_within(thread, at);
    // A rule's phase ends with the phase in which it began.
    if (meant->first < thread.rule) end_rule(track.slot, thread, at);
  }
  tell_end(track, meant->first, at.ticks);
  close(open, meant, at, true);
}

PhaseId PhaseTree::begin_range(uint64_t range, const PhaseLabel& label, const PhaseMoment& at) {
  border(at);
  if (ranges_.size() >= kMostOpenRanges || leaves_out(label, process_phase(), true)) {
    ++left_out_;
    return process_phase();
  }
  if (observer_ != nullptr) observer_->on_range_begin(range, label, at.ticks);
  OpenPhase open = opened(label, at);
  open.range = range;
  enter(open, process_phase(), at);
  phases_[open.phase].is_range = true;
  add(ranges_, open, OpenPhases::Key{range, 0});
  return open.phase;
}

void PhaseTree::end_range(uint64_t range, const PhaseMoment& at) {
  border(at);
  const Place last = ranges_.find({range, 0});
  if (last == ranges_.end()) {
    ++unbalanced_pops_;
    return;
  }
  close_range(last->second, at, true);
  ranges_.erase(last);
}

void PhaseTree::close_range(const OpenPhase& range, const PhaseMoment& at, bool seen) {
  if (observer_ != nullptr) observer_->on_range_end(range.range, range.label, at.ticks);
  end_instance(range, peak(range), {at.ticks, at.now, owned(range.phase, at), seen});
}

void PhaseTree::end_thread(uint32_t slot, const PhaseMoment& at) {
  border(at);  // always: the caller has already begun a new maximum
  const auto thread = threads_.find(slot);
  if (thread == threads_.end()) return;
  settle_within(thread->second, at);
  if (thread->second.rest) end_rule(slot, thread->second, at);
  close_all(of_thread(slot), thread->second.open, at, true);
  threads_.erase(thread);
}

void PhaseTree::finish(const PhaseMoment& at) {
  border(at);
  for (auto& [slot, thread] : threads_) {
    settle_within(thread, at);
    if (thread.rest) end_rule(slot, thread, at);
    close_all(of_thread(slot), thread.open, at, false);
  }
  threads_.clear();
  close_all(kOfProcess, process_.open, at, false);
  for (const auto& [number, range] : ranges_.all()) close_range(range, at, false);
  ranges_.clear();
}

}  // namespace gpupeak::collector
