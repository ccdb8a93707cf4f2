#include "collector/replay/node_phases.h"

#include <fmt/format.h>

#include <algorithm>

namespace gpupeak::collector {

NodePhases::NodePhases(const LogReader& log, NameTable& names)
    : profiles_(read_ort_profiles(log)), names_(names), slots_(profiles_.spans.size(), kNoSlot) {
  for (const std::string& name : profiles_.names) name_ids_.push_back(names.id_of(name));
  borders_.reserve(2 * profiles_.spans.size());
  for (uint32_t i = 0; i < profiles_.spans.size(); ++i) {
    borders_.push_back({profiles_.spans[i].begin_ticks, i, false});
    borders_.push_back({profiles_.spans[i].end_ticks, i, true});
  }
  std::stable_sort(borders_.begin(), borders_.end(), [](const Border& a, const Border& b) {
    return a.ticks != b.ticks ? a.ticks < b.ticks : a.is_end && !b.is_end;
  });
  if (!borders_.empty()) next_ticks_ = borders_.front().ticks;
}

/// Whether the session runs in this thread. If this thread is in no call of ONNX Runtime: whether
/// it runs in another one.
bool NodePhases::runs(const PhaseTree& phases, uint32_t slot, uint64_t session) {
  const std::vector<Phase>& all = phases.phases();
  const auto is_run = [&](const Phase& phase) {
    return phase.source == GPUPEAK_PHASE_ORT && names_.text(phase.name) == "run";
  };
  for (PhaseId id = phases.innermost(slot); id != 0; id = all[id].parent) {
    if (all[id].source == GPUPEAK_PHASE_ORT) return is_run(all[id]) && all[id].instance == session;
  }
  for (; seen_phases_ < all.size(); ++seen_phases_) {
    if (is_run(all[seen_phases_])) runs_.push_back(static_cast<PhaseId>(seen_phases_));
  }
  return std::any_of(runs_.begin(), runs_.end(),
                     [&](PhaseId id) { return all[id].instance == session && all[id].open > 0; });
}

void NodePhases::pass(uint64_t ticks, const std::function<uint32_t(uint32_t tid)>& slot_of,
                      LiveMemory& live, PhaseTree& phases) {
  for (; next_ < borders_.size() && borders_[next_].ticks <= ticks; ++next_) {
    const Border& border = borders_[next_];
    const NodeSpan& span = profiles_.spans[border.span];
    const PhaseLabel label{name_ids_[span.name], kPhaseNode, span.session};
    uint32_t& slot = slots_[border.span];
    if (border.is_end) {
      // If the thread has ended, its phases have ended with it.
      if (slot != kNoSlot && slot_of(span.tid) == slot)
        phases.pop({false, slot}, label, live.moment(border.ticks));
      continue;
    }
    slot = slot_of(span.tid);
    if (slot == kNoSlot) continue;  // the thread has no event so far
    if (runs(phases, slot, span.session)) {
      phases.push({false, slot}, label, live.moment(border.ticks));
    } else {
      slot = kNoSlot;
      ++misplaced_;
    }
  }
  next_ticks_ = next_ < borders_.size() ? borders_[next_].ticks : UINT64_MAX;
}

std::vector<std::string> NodePhases::problems() const {
  std::vector<std::string> problems = profiles_.problems;
  uint64_t misplaced = misplaced_;
  for (size_t i = next_; i < borders_.size(); ++i) misplaced += borders_[i].is_end ? 0 : 1;
  if (misplaced > 0) {
    problems.push_back(fmt::format(
        "{} of {} node runs of ONNX Runtime's profiles lie outside of the runs of their "
        "session, as if the clock had been set meanwhile: they have no phase",
        misplaced, profiles_.spans.size()));
  }
  return problems;
}

}  // namespace gpupeak::collector
