#include "collector/phase_tree.h"

#include <algorithm>

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
  for (auto& [slot, stack] : threads_) raise(stack);
}

PhaseId PhaseTree::push(bool of_process, uint32_t slot, uint8_t source, uint32_t name,
                        uint64_t ticks, const PhaseGauges& gauges) {
  border(gauges);
  const PhaseId parent =
      of_process ? (process_.empty() ? 0 : process_.back().phase) : innermost(slot);
  const auto [entry, added] =
      ids_.try_emplace({parent, name, source}, static_cast<PhaseId>(phases_.size()));
  const PhaseId id = entry->second;
  if (added) {
    Phase& fresh = phases_.emplace_back();
    fresh.parent = parent;
    fresh.name = name;
    fresh.source = source;
    fresh.begin_ticks = ticks;
    fresh.start_bytes = gauges.now;
  }
  ++phases_[id].count;
  ++phases_[id].open;
  (of_process ? process_ : threads_[slot]).push_back({id, gauges.now});
  return id;
}

void PhaseTree::close_top(Stack& stack, uint64_t ticks, const PhaseGauges& gauges, bool ended) {
  const Open top = stack.back();
  stack.pop_back();
  Phase& phase = phases_[top.phase];
  phase.end_ticks = ticks;
  phase.end_bytes = gauges.now;
  if (ended) --phase.open;
  for (size_t side = 0; side < kPhaseSides; ++side) {
    phase.peak_bytes[side] = std::max(phase.peak_bytes[side], top.peak_bytes[side]);
    if (stack.empty()) continue;
    uint64_t& outer = stack.back().peak_bytes[side];
    outer = std::max(outer, top.peak_bytes[side]);
  }
}

void PhaseTree::pop(bool of_process, uint32_t slot, uint64_t ticks, const PhaseGauges& gauges) {
  border(gauges);
  const auto thread = threads_.find(slot);
  if (of_process ? process_.empty() : thread == threads_.end()) {
    ++unbalanced_pops_;
    return;
  }
  if (of_process) {
    close_top(process_, ticks, gauges, true);
    return;
  }
  close_top(thread->second, ticks, gauges, true);
  if (thread->second.empty()) threads_.erase(thread);
}

void PhaseTree::end_thread(uint32_t slot, uint64_t ticks, const PhaseGauges& gauges) {
  border(gauges);  // always: the caller has given up the maximum since the last border
  const auto thread = threads_.find(slot);
  if (thread == threads_.end()) return;
  while (!thread->second.empty()) close_top(thread->second, ticks, gauges, true);
  threads_.erase(thread);
}

void PhaseTree::finish(const PhaseGauges& gauges) {
  border(gauges);
  for (auto& [slot, stack] : threads_) {
    while (!stack.empty()) close_top(stack, 0, gauges, false);
  }
  threads_.clear();
  while (!process_.empty()) close_top(process_, 0, gauges, false);
}

}  // namespace gpupeak::collector
