#include "collector/replay/phase_tree.h"

#include <algorithm>
#include <cstddef>

namespace gpupeak::collector {

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

/// The maximum since the last border goes to the innermost phase of each stack; the phases around
/// it get it when that one ends.
void PhaseTree::border(const PhaseGauges& gauges) {
  const auto raise = [&](Stack& stack) {
    for (size_t side = 0; side < kPhaseSides; ++side) {
      uint64_t& peak = stack.back().peak_bytes[side];
      peak = std::max(peak, gauges.max[side]);
    }
  };
  if (!process_.empty()) raise(process_);
  if (!ranges_.empty()) raise(ranges_);
  for (auto& [slot, thread] : threads_) raise(thread.stack);
}

PhaseTree::Owned PhaseTree::owned(PhaseId phase, const PhaseGauges& gauges) {
  Owned sum;
  const auto of = [&](PhaseId id, size_t side) {
    const OwnerId owner = owner_of(id, side);
    return owner < gauges.owned.size() ? gauges.owned[owner] : PeakFinder::Owned{};
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

PhaseTree::Open PhaseTree::opened(const Label& label, uint64_t ticks,
                                  const PhaseGauges& gauges) const {
  Open open;
  open.label = label;
  open.begin_ticks = ticks;
  open.start_bytes = open.peak_bytes = gauges.now;
  return open;
}

/// Decides which phase it is.
void PhaseTree::enter(Open& open, PhaseId parent, const PhaseGauges& gauges) {
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
  open.owned = owned(id, gauges);
}

PhaseId PhaseTree::push(bool of_process, uint32_t slot, uint8_t source, uint32_t name,
                        uint64_t ticks, const PhaseGauges& gauges, uint64_t instance) {
  border(gauges);
  Open open = opened({name, source, instance}, ticks, gauges);
  if (of_process) {
    // start, main and exit follow one another, whatever lies on top of them.
    enter(open, source == GPUPEAK_PHASE_AUTO ? 0 : process_phase(), gauges);
    process_.push_back(open);
    return open.phase;
  }
  const PhaseId parent = innermost(slot);
  Thread& thread = threads_[slot];
  if (thread.rule_at == kNone) {
    enter(open, parent, gauges);
  } else {
    open.owned_by_rule = owned(thread.stack[thread.rule_at].phase, gauges);
  }
  thread.stack.push_back(open);
  return open.phase;
}

void PhaseTree::end_instance(const Open& open, const std::array<uint64_t, kPhaseSides>& peak,
                             const End& end) {
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
    phase.kept_bytes[i] += side.kept_bytes;
  }
  phase.instances.add(row);
  if (spans_.size() < kMaxSpans) spans_.push_back({open.phase, row.begin_ticks, row.end_ticks});
}

/// What has gone from a stack has lain within the one before.
void PhaseTree::remove(Stack& stack, size_t at, const std::array<uint64_t, kPhaseSides>& peak) {
  for (size_t side = 0; at > 0 && side < kPhaseSides; ++side) {
    uint64_t& outer = stack[at - 1].peak_bytes[side];
    outer = std::max(outer, peak[side]);
  }
  stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(at));
}

/// All that was opened after the phase at `at` has lain within it so far.
std::array<uint64_t, kPhaseSides> PhaseTree::peak_within(const Stack& stack, size_t at) {
  std::array<uint64_t, kPhaseSides> peak{};
  for (size_t side = 0; side < kPhaseSides; ++side) {
    for (size_t i = at; i < stack.size(); ++i) {
      peak[side] = std::max(peak[side], stack[i].peak_bytes[side]);
    }
  }
  return peak;
}

void PhaseTree::close(Stack& stack, size_t at, uint64_t ticks, const PhaseGauges& gauges,
                      bool ended) {
  const std::array<uint64_t, kPhaseSides> peak = peak_within(stack, at);
  end_instance(stack[at], peak, {ticks, gauges.now, owned(stack[at].phase, gauges), ended});
  remove(stack, at, peak);
}

void PhaseTree::close_all(Stack& stack, uint64_t ticks, const PhaseGauges& gauges, bool ended) {
  while (!stack.empty()) close(stack, stack.size() - 1, ticks, gauges, ended);
}

// ---- phases of rules
// --------------------------------------------------------------------------------

/// What was opened since lies within the rule's phase.
void PhaseTree::settle_within(Thread& thread, const PhaseGauges& gauges) {
  for (size_t i = 0; i < thread.stack.size(); ++i) {
    Open& open = thread.stack[i];
    if (open.phase == 0) enter(open, i > 0 ? thread.stack[i - 1].phase : process_phase(), gauges);
  }
}

/// The frame has gone: before what was opened since its last event.
void PhaseTree::end_rule(Thread& thread, uint64_t ticks, const PhaseGauges& gauges) {
  if (thread.rule_at == kNone) return;
  Stack& stack = thread.stack;
  const size_t at = thread.rule_at;
  thread.rule_at = kNone;
  if (at + 1 < stack.size() && stack[at + 1].phase == 0) {
    const Open& next = stack[at + 1];
    end_instance(stack[at], stack[at].peak_bytes,
                 {next.begin_ticks, next.start_bytes, next.owned_by_rule, true});
    remove(stack, at, std::array<uint64_t, kPhaseSides>(stack[at].peak_bytes));
  } else if (thread.rest) {
    const Rest& rest = *thread.rest;
    end_instance(stack[at], rest.peak_bytes, {rest.ticks, rest.bytes, rest.owned, true});
    remove(stack, at, peak_within(stack, at));
  } else {
    close(stack, at, ticks, gauges, true);
  }
  settle_within(thread, gauges);
}

void PhaseTree::rest(uint32_t slot, uint64_t ticks, const PhaseGauges& gauges) {
  border(gauges);
  const auto found = threads_.find(slot);
  if (found == threads_.end() || found->second.rule_at == kNone) return;
  Thread& thread = found->second;
  thread.rest = {ticks, gauges.now, peak_within(thread.stack, thread.rule_at),
                 owned(thread.stack[thread.rule_at].phase, gauges)};
}

void PhaseTree::wake(uint32_t slot) {
  const auto thread = threads_.find(slot);
  if (thread != threads_.end()) thread->second.rest.reset();
}

void PhaseTree::set_rule(uint32_t slot, uint32_t name, uint64_t ticks, const PhaseGauges& gauges) {
  border(gauges);
  const auto known = threads_.find(slot);
  if (known == threads_.end() && name == 0) return;
  Thread& thread = known == threads_.end() ? threads_[slot] : known->second;
  const auto said_by_program = [&](const Open& open) {
    return open.label.name == name && open.label.source != GPUPEAK_PHASE_RULE;
  };
  if (std::any_of(thread.stack.begin(), thread.stack.end(), said_by_program)) name = 0;
  if (thread.rule_at != kNone && thread.stack[thread.rule_at].label.name == name) {
    settle_within(thread, gauges);
    return;
  }
  end_rule(thread, ticks, gauges);
  if (name != 0) {
    Open open = opened({name, GPUPEAK_PHASE_RULE, 0}, ticks, gauges);
    enter(open, thread.stack.empty() ? process_phase() : thread.stack.back().phase, gauges);
    thread.rule_at = thread.stack.size();
    thread.stack.push_back(open);
  }
  if (thread.stack.empty()) threads_.erase(slot);
}

void PhaseTree::settle_rule(uint32_t slot, const PhaseGauges& gauges) {
  border(gauges);
  const auto thread = threads_.find(slot);
  if (thread != threads_.end()) settle_within(thread->second, gauges);
}

PhaseId PhaseTree::phase_of_rule(uint32_t slot) const {
  const auto thread = threads_.find(slot);
  if (thread == threads_.end() || thread->second.rule_at == kNone) return 0;
  return thread->second.stack[thread->second.rule_at].phase;
}

// ---- ends
// -------------------------------------------------------------------------------------------

void PhaseTree::pop(bool of_process, uint32_t slot, uint64_t ticks, const PhaseGauges& gauges,
                    uint8_t source, uint64_t instance) {
  border(gauges);
  const auto thread = threads_.find(slot);
  Stack none;
  Stack& stack = of_process ? process_ : thread != threads_.end() ? thread->second.stack : none;
  const size_t rule_at = of_process || stack.empty() ? kNone : thread->second.rule_at;
  const auto is_meant = [&](size_t i) {
    return i != rule_at && stack[i].label.source == source && stack[i].label.instance == instance;
  };
  size_t at = stack.size();
  while (at > 0 && !is_meant(at - 1)) --at;
  if (at == 0 && source == GPUPEAK_PHASE_AUTO) {
    at = stack.size();
    if (at > 0 && at - 1 == rule_at) --at;
  }
  if (at == 0) {
    ++unbalanced_pops_;
    return;
  }
  if (rule_at != kNone) {
    settle_within(thread->second, gauges);
    // The phase of a rule ends with the one that it began in.
    if (at - 1 < rule_at) end_rule(thread->second, ticks, gauges);
  }
  close(stack, at - 1, ticks, gauges, true);
  if (!of_process && stack.empty()) threads_.erase(thread);
}

PhaseId PhaseTree::begin_range(uint64_t range, uint8_t source, uint32_t name, uint64_t ticks,
                               const PhaseGauges& gauges, uint64_t instance) {
  border(gauges);
  Open open = opened({name, source, instance}, ticks, gauges);
  open.range = range;
  enter(open, process_phase(), gauges);
  phases_[open.phase].is_range = true;
  ranges_.push_back(open);
  return open.phase;
}

void PhaseTree::end_range(uint64_t range, uint64_t ticks, const PhaseGauges& gauges) {
  border(gauges);
  for (size_t at = ranges_.size(); at > 0;) {
    if (ranges_[--at].range == range) return close(ranges_, at, ticks, gauges, true);
  }
  ++unbalanced_pops_;
}

void PhaseTree::end_thread(uint32_t slot, uint64_t ticks, const PhaseGauges& gauges) {
  border(gauges);  // always: the caller has given up the maximum since the last border
  const auto thread = threads_.find(slot);
  if (thread == threads_.end()) return;
  settle_within(thread->second, gauges);
  if (thread->second.rest) end_rule(thread->second, ticks, gauges);
  close_all(thread->second.stack, ticks, gauges, true);
  threads_.erase(thread);
}

void PhaseTree::finish(uint64_t ticks, const PhaseGauges& gauges) {
  border(gauges);
  for (auto& [slot, thread] : threads_) {
    settle_within(thread, gauges);
    if (thread.rest) end_rule(thread, ticks, gauges);
    close_all(thread.stack, ticks, gauges, false);
  }
  threads_.clear();
  close_all(ranges_, ticks, gauges, false);
  close_all(process_, ticks, gauges, false);
}

}  // namespace gpupeak::collector
