#include "collector/phase_tree.h"

#include <algorithm>
#include <cstddef>

namespace gpupeak::collector {

PhaseId PhaseTree::innermost(uint32_t slot) const {
  const auto thread = threads_.find(slot);
  if (thread != threads_.end()) return thread->second.back().phase;
  return process_.empty() ? 0 : process_.back().phase;
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
  for (auto& [slot, stack] : threads_) raise(stack);
}

PhaseId PhaseTree::open(Stack& stack, PhaseId parent, uint8_t source, uint32_t name,
                        uint64_t instance, uint64_t ticks, const PhaseGauges& gauges,
                        uint64_t range) {
  const auto [entry, added] =
      ids_.try_emplace({parent, name, source, instance}, static_cast<PhaseId>(phases_.size()));
  const PhaseId id = entry->second;
  if (added) {
    Phase& fresh = phases_.emplace_back();
    fresh.parent = parent;
    fresh.name = name;
    fresh.source = source;
    fresh.instance = instance;
    fresh.begin_ticks = ticks;
    fresh.start_bytes = gauges.now;
  }
  ++phases_[id].count;
  ++phases_[id].open;
  stack.push_back({id, gauges.now, range});
  return id;
}

PhaseId PhaseTree::push(bool of_process, uint32_t slot, uint8_t source, uint32_t name,
                        uint64_t ticks, const PhaseGauges& gauges, uint64_t instance) {
  border(gauges);
  PhaseId parent = innermost(slot);
  if (of_process) {
    // start, main and exit follow one another, whatever lies on top of them.
    parent = process_.empty() || source == GPUPEAK_PHASE_AUTO ? 0 : process_.back().phase;
  }
  return open(of_process ? process_ : threads_[slot], parent, source, name, instance, ticks,
              gauges);
}

/// All that was opened after the closed one has lain within it so far, and it within the one
/// before.
void PhaseTree::close(Stack& stack, size_t at, uint64_t ticks, const PhaseGauges& gauges,
                      bool ended) {
  Phase& phase = phases_[stack[at].phase];
  phase.end_ticks = ticks;
  phase.end_bytes = gauges.now;
  if (ended) --phase.open;
  for (size_t side = 0; side < kPhaseSides; ++side) {
    uint64_t peak = 0;
    for (size_t i = at; i < stack.size(); ++i) peak = std::max(peak, stack[i].peak_bytes[side]);
    phase.peak_bytes[side] = std::max(phase.peak_bytes[side], peak);
    if (at == 0) continue;
    uint64_t& outer = stack[at - 1].peak_bytes[side];
    outer = std::max(outer, peak);
  }
  stack.erase(stack.begin() + static_cast<std::ptrdiff_t>(at));
}

void PhaseTree::close_all(Stack& stack, uint64_t ticks, const PhaseGauges& gauges, bool ended) {
  while (!stack.empty()) close(stack, stack.size() - 1, ticks, gauges, ended);
}

void PhaseTree::pop(bool of_process, uint32_t slot, uint64_t ticks, const PhaseGauges& gauges,
                    uint8_t source, uint64_t instance) {
  border(gauges);
  const auto thread = threads_.find(slot);
  Stack none;
  Stack& stack = of_process ? process_ : thread != threads_.end() ? thread->second : none;
  const auto is_meant = [&](const Open& open) {
    const Phase& phase = phases_[open.phase];
    return phase.source == source && phase.instance == instance;
  };
  size_t at = stack.size();
  while (at > 0 && !is_meant(stack[at - 1])) --at;
  if (at == 0 && source == GPUPEAK_PHASE_AUTO) at = stack.size();
  if (at == 0) {
    ++unbalanced_pops_;
    return;
  }
  close(stack, at - 1, ticks, gauges, true);
  if (!of_process && stack.empty()) threads_.erase(thread);
}

PhaseId PhaseTree::begin_range(uint64_t range, uint8_t source, uint32_t name, uint64_t ticks,
                               const PhaseGauges& gauges, uint64_t instance) {
  border(gauges);
  const PhaseId parent = process_.empty() ? 0 : process_.back().phase;
  return open(ranges_, parent, source, name, instance, ticks, gauges, range);
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
  close_all(thread->second, ticks, gauges, true);
  threads_.erase(thread);
}

void PhaseTree::finish(const PhaseGauges& gauges) {
  border(gauges);
  for (auto& [slot, stack] : threads_) close_all(stack, 0, gauges, false);
  threads_.clear();
  close_all(ranges_, 0, gauges, false);
  close_all(process_, 0, gauges, false);
}

}  // namespace gpupeak::collector
