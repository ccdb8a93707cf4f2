#include "collector/replay/phase_tree.h"

#include <algorithm>
#include <cstddef>

#include "collector/text/wrapping_sum.h"

namespace gpupeak::collector {
namespace {

/// What grows with each node grows with each run, and a model has hundreds of nodes.
bool is_watched(const PhaseLabel& label) {
  return label.source != kPhaseNode;
}

}  // namespace

PhaseId PhaseTree::innermost(uint32_t slot) const {
  const auto thread = threads_.find(slot);
  if (thread != threads_.end()) {
    const Stack& stack = thread->second.stack;
    for (auto open = stack.rbegin(); open != stack.rend(); ++open) {
      if (open->phase != 0) return open->phase;
    }
  }
  return process_phase();
}

void PhaseTree::border(const PhaseMoment& at) {
  for (size_t side = 0; side < kPhaseSides; ++side) maxima_[side].add(at.max[side]);
}

PhaseTree::Bytes PhaseTree::peak(const Open& open) const {
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
  std::vector<PhaseId> within = phases_[phase].children;
  while (!within.empty()) {
    ++steps_;
    const PhaseId id = within.back();
    within.pop_back();
    for (size_t side = 0; side < kPhaseSides; ++side) {
      sum.live_bytes[side] += of(id, side).live_bytes;
    }
    within.insert(within.end(), phases_[id].children.begin(), phases_[id].children.end());
  }
  return sum;
}

PhaseTree::Open PhaseTree::opened(const PhaseLabel& label, const PhaseMoment& at) const {
  Open open;
  open.label = label;
  open.begin_ticks = at.ticks;
  open.start_bytes = at.now;
  open.since = maxima_[0].now();
  return open;
}

/// Decides which phase it is.
void PhaseTree::enter(Open& open, PhaseId parent, const PhaseMoment& at) {
  const auto [entry, added] =
      ids_.try_emplace({parent, open.label.name, open.label.source, open.label.instance},
                       static_cast<PhaseId>(phases_.size()));
  const PhaseId id = entry->second;
  if (added) {
    Phase& fresh = phases_.emplace_back();
    fresh.parent = parent;
    fresh.name = open.label.name;
    fresh.source = open.label.source;
    fresh.instance = open.label.instance;
    fresh.begin_ticks = open.begin_ticks;
    fresh.start_bytes = open.start_bytes;
    phases_[parent].children.push_back(id);
  }
  open.phase = id;
  open.number = ++phases_[id].count;
  ++phases_[id].open;
  open.owned = owned(id, at);
  if (watcher_ != nullptr && is_watched(open.label))
    watcher_->instance_began(id, open.number, open.begin_ticks);
}

PhaseId PhaseTree::push(PhaseTrack track, const PhaseLabel& label, const PhaseMoment& at) {
  border(at);
  tell_begin(track, label, at.ticks);
  Open open = opened(label, at);
  if (track.of_process) {
    // start, main and exit follow one another, whatever lies on top of them.
    enter(open, label.source == GPUPEAK_PHASE_AUTO ? 0 : process_phase(), at);
    process_.push_back(open);
    return open.phase;
  }
  const PhaseId parent = innermost(track.slot);
  Thread& thread = threads_[track.slot];
  if (thread.rule_at == kNone) {
    enter(open, parent, at);
  } else {
    open.owned_by_rule = owned(thread.stack[thread.rule_at].phase, at);
    open.peak_of_rule = peak(thread.stack[thread.rule_at]);
  }
  thread.stack.push_back(open);
  return open.phase;
}

void PhaseTree::end_instance(const Open& open, const Bytes& peak, const End& end) {
  Phase& phase = phases_[open.phase];
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
  if (watcher_ != nullptr && is_watched(open.label) && end.seen)
    watcher_->instance_ended(open.phase, open.number, end.ticks);
  if (spans_.size() < kMaxSpans) spans_.push_back({open.phase, row.begin_ticks, row.end_ticks});
}

void PhaseTree::close(Stack& stack, size_t index, const PhaseMoment& at, bool seen) {
  end_instance(stack[index], peak(stack[index]),
               {at.ticks, at.now, owned(stack[index].phase, at), seen});
  stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(index));
}

void PhaseTree::close_stack(PhaseTrack track, Stack& stack, const PhaseMoment& at, bool seen) {
  while (!stack.empty()) {
    tell_end(track, stack.size() - 1, at.ticks);
    close(stack, stack.size() - 1, at, seen);
  }
}

/// What was opened since lies within the rule's phase.
void PhaseTree::settle_within(Thread& thread, const PhaseMoment& at) {
  for (size_t i = 0; i < thread.stack.size(); ++i) {
    Open& open = thread.stack[i];
    if (open.phase == 0) enter(open, i > 0 ? thread.stack[i - 1].phase : process_phase(), at);
  }
}

/// The frame has gone: before what was opened since its last event.
void PhaseTree::end_rule(uint32_t slot, Thread& thread, const PhaseMoment& at) {
  if (thread.rule_at == kNone) return;
  Stack& stack = thread.stack;
  const size_t rule = thread.rule_at;
  thread.rule_at = kNone;
  // What lies above it has been told already: for who looks on it ends no earlier than that.
  tell_end(of_thread(slot), rule, thread.rest ? thread.rest->ticks : at.ticks);
  if (rule + 1 < stack.size() && stack[rule + 1].phase == 0) {
    const Open& next = stack[rule + 1];
    end_instance(stack[rule], next.peak_of_rule,
                 {next.begin_ticks, next.start_bytes, next.owned_by_rule, true});
    stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(rule));
  } else if (thread.rest) {
    const Rest& rest = *thread.rest;
    end_instance(stack[rule], rest.peak_bytes, {rest.ticks, rest.bytes, rest.owned, true});
    stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(rule));
  } else {
    close(stack, rule, at, true);
  }
  settle_within(thread, at);
}

void PhaseTree::rest(uint32_t slot, const PhaseMoment& at) {
  border(at);
  const auto found = threads_.find(slot);
  if (found == threads_.end() || found->second.rule_at == kNone) return;
  Thread& thread = found->second;
  thread.rest = {at.ticks, at.now, peak(thread.stack[thread.rule_at]),
                 owned(thread.stack[thread.rule_at].phase, at)};
}

void PhaseTree::wake(uint32_t slot) {
  const auto thread = threads_.find(slot);
  if (thread != threads_.end()) thread->second.rest.reset();
}

void PhaseTree::set_rule(uint32_t slot, uint32_t name, const PhaseMoment& at) {
  border(at);
  const auto known = threads_.find(slot);
  if (known == threads_.end() && name == 0) return;
  Thread& thread = known == threads_.end() ? threads_[slot] : known->second;
  const auto said_by_program = [&](const Open& open) {
    return open.label.name == name && open.label.source != GPUPEAK_PHASE_RULE;
  };
  if (std::any_of(thread.stack.begin(), thread.stack.end(), said_by_program)) name = 0;
  if (thread.rule_at != kNone && thread.stack[thread.rule_at].label.name == name) {
    settle_within(thread, at);
    return;
  }
  end_rule(slot, thread, at);
  if (name != 0) {
    const PhaseLabel label{name, GPUPEAK_PHASE_RULE, 0};
    tell_begin(of_thread(slot), label, at.ticks);
    Open open = opened(label, at);
    enter(open, thread.stack.empty() ? process_phase() : thread.stack.back().phase, at);
    thread.rule_at = thread.stack.size();
    thread.stack.push_back(open);
  }
  if (thread.stack.empty()) threads_.erase(slot);
}

void PhaseTree::settle_rule(uint32_t slot, const PhaseMoment& at) {
  border(at);
  const auto thread = threads_.find(slot);
  if (thread != threads_.end()) settle_within(thread->second, at);
}

void PhaseTree::pop(PhaseTrack track, const PhaseLabel& label, const PhaseMoment& at) {
  border(at);
  const auto thread = threads_.find(track.slot);
  Stack none;
  Stack& stack = track.of_process           ? process_
                 : thread != threads_.end() ? thread->second.stack
                                            : none;
  const size_t rule_at = track.of_process || stack.empty() ? kNone : thread->second.rule_at;
  const auto is_meant = [&](size_t i) {
    return i != rule_at && stack[i].label.source == label.source &&
           stack[i].label.instance == label.instance;
  };
  size_t above = stack.size();  // the phase that is meant lies below this one
  while (above > 0 && !is_meant(above - 1)) --above;
  if (above == 0 && label.source == GPUPEAK_PHASE_AUTO) {
    above = stack.size();
    if (above > 0 && above - 1 == rule_at) --above;
  }
  if (above == 0) {
    ++unbalanced_pops_;
    return;
  }
  if (rule_at != kNone) {
    settle_within(thread->second, at);
    // The phase of a rule ends with the one that it began in.
    if (above - 1 < rule_at) end_rule(track.slot, thread->second, at);
  }
  tell_end(track, above - 1, at.ticks);
  close(stack, above - 1, at, true);
  if (!track.of_process && stack.empty()) threads_.erase(thread);
}

PhaseId PhaseTree::begin_range(uint64_t range, const PhaseLabel& label, const PhaseMoment& at) {
  border(at);
  if (observer_ != nullptr) observer_->on_range_begin(range, label, at.ticks);
  Open open = opened(label, at);
  open.range = range;
  enter(open, process_phase(), at);
  phases_[open.phase].is_range = true;
  open_ranges_[range].push_back(++last_range_);
  ranges_.emplace(last_range_, open);
  return open.phase;
}

void PhaseTree::end_range(uint64_t range, const PhaseMoment& at) {
  border(at);
  const auto found = open_ranges_.find(range);
  if (found == open_ranges_.end()) {
    ++unbalanced_pops_;
    return;
  }
  const auto last = ranges_.find(found->second.back());
  found->second.pop_back();
  if (found->second.empty()) open_ranges_.erase(found);
  close_range(last->second, at, true);
  ranges_.erase(last);
}

void PhaseTree::close_range(const Open& range, const PhaseMoment& at, bool seen) {
  tell_range_end(range, at.ticks);
  end_instance(range, peak(range), {at.ticks, at.now, owned(range.phase, at), seen});
}

void PhaseTree::end_thread(uint32_t slot, const PhaseMoment& at) {
  border(at);  // always: the caller has given up the maximum since the last border
  const auto thread = threads_.find(slot);
  if (thread == threads_.end()) return;
  settle_within(thread->second, at);
  if (thread->second.rest) end_rule(slot, thread->second, at);
  close_stack(of_thread(slot), thread->second.stack, at, true);
  threads_.erase(thread);
}

void PhaseTree::finish(const PhaseMoment& at) {
  border(at);
  for (auto& [slot, thread] : threads_) {
    settle_within(thread, at);
    if (thread.rest) end_rule(slot, thread, at);
    close_stack(of_thread(slot), thread.stack, at, false);
  }
  threads_.clear();
  close_stack(kOfProcess, process_, at, false);
  for (const auto& [number, range] : ranges_) close_range(range, at, false);
  ranges_.clear();
  open_ranges_.clear();
}

}  // namespace gpupeak::collector
