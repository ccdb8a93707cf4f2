#include "collector/replay/allocation_context.h"

#include <fmt/format.h>

#include <algorithm>

#include "collector/log/definitions.h"

namespace gpupeak::collector {

uint32_t NameTable::id(uint32_t name, std::string_view text) {
  const size_t first = definitions_.strings().size();
  if (name != 0 || text.empty()) return name < first ? name : 0;
  return static_cast<uint32_t>(first) + written_out_.of(std::string(bounded_name(text)));
}

uint32_t NameTable::id_of(std::string_view text) {
  const std::vector<std::string_view>& strings = definitions_.strings();
  const auto known = std::ranges::find(strings, text);
  return known == strings.end() ? id(0, text) : static_cast<uint32_t>(known - strings.begin());
}

std::string_view NameTable::text(uint32_t id) const {
  const size_t first = definitions_.strings().size();
  if (id < first) return definitions_.string(id);
  const auto number = static_cast<uint32_t>(id - first);
  if (number >= written_out_.all().size()) return {};  // a damaged log
  return written_out_[number];
}

NodePhases::NodePhases(const LogReader& log, NameTable& names)
    : profiles_(read_ort_profiles(log)), names_(names), slots_(profiles_.spans.size(), kNoSlot) {
  for (const std::string& name : profiles_.names) name_ids_.push_back(names.id_of(name));
  borders_.reserve(2 * profiles_.spans.size());
  for (uint32_t i = 0; i < profiles_.spans.size(); ++i) {
    borders_.push_back({profiles_.spans[i].begin_ticks, i, false});
    borders_.push_back({profiles_.spans[i].end_ticks, i, true});
  }
  std::ranges::stable_sort(borders_, [](const Border& a, const Border& b) {
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
  return std::ranges::any_of(
      runs_, [&](PhaseId id) { return all[id].instance == session && all[id].open > 0; });
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

AllocationContext::AllocationContext(const LogReader& log, LiveMemory& live,
                                     ReplayTroubles& troubles, ReplayObserver* observer)
    : live_(live),
      troubles_(troubles),
      stack_count_(log.definitions().logged_node_count()),
      names_(log.definitions()),
      phases_(observer),
      nodes_(log, names_),
      threads_(log.slots().size()) {}

void AllocationContext::use_rules(const StackPhases& rules) {
  if (rules.rule_count() == 0) return;
  rules_ = &rules;
  for (uint32_t rule = 0; rule < rules.rule_count(); ++rule) {
    rule_names_.push_back(names_.id_of(rules.name(rule)));
  }
}

void AllocationContext::turn_to(uint32_t slot, uint64_t last_ticks) {
  if (active_slot_ < threads_.size() && threads_[active_slot_].rule != kNoRule) {
    phases_.rest(active_slot_, live_.moment(last_ticks));
  }
  active_slot_ = slot;
}

void AllocationContext::change_thread(const Event& event) {
  Thread& thread = threads_[event.slot];
  if (thread.tid != 0) phases_.end_thread(event.slot, live_.moment(event.ticks));
  thread.tid = event.tid;
  thread.tags.clear();
  ++version_;
}

void AllocationContext::change_nodes(uint64_t ticks) {
  const auto slot_of = [this](uint32_t tid) {
    for (uint32_t slot = 0; slot < threads_.size(); ++slot) {
      if (threads_[slot].tid == tid) return slot;
    }
    return NodePhases::kNoSlot;
  };
  nodes_.pass(ticks, slot_of, live_, phases_);
  ++version_;
}

void AllocationContext::change_rule(const Event& event, uint32_t stack) {
  Thread& thread = threads_[event.slot];
  const bool known = stack != 0 && !(thread.rule_by_python && rules_->hides_python(stack));
  const uint32_t rule = known ? rules_->rule_of(stack) : thread.rule;
  const uint64_t callers = known ? rules_->callers_of(stack) : 0;
  const bool is_other_call =
      rule == thread.rule && StackPhases::are_of_two_calls(thread.callers, callers);
  if (callers != 0 || rule != thread.rule) thread.callers = callers;
  if (rule == thread.rule && !is_other_call && thread.rule_valid_for == version_) return;
  if (known) {
    const PhaseTree::ByRule told =
        rule == kNoRule
            ? PhaseTree::ByRule{}
            : PhaseTree::ByRule{rule_names_[rule], rules_->is_by_call(rule), is_other_call};
    phases_.set_rule(event.slot, told, live_.moment(event.ticks));
    thread.rule_by_python = rules_->is_by_python(stack);
  } else {
    phases_.settle_rule(event.slot, live_.moment(event.ticks));
  }
  thread.rule = rule;
  thread.rule_valid_for = ++version_;
}

void AllocationContext::push(const PhasePushEvent& phase, const Event& event) {
  const PhaseLabel label{names_.id(phase.name, phase.text), phase.source, phase.instance};
  phases_.push({phase.of_process, event.slot}, label, live_.moment(event.ticks));
  ++version_;
}

void AllocationContext::pop(const PhasePopEvent& phase, const Event& event) {
  phases_.pop({phase.of_process, event.slot}, {0, phase.source, phase.instance},
              live_.moment(event.ticks));
  ++version_;
}

void AllocationContext::begin_range(const RangeBeginEvent& range, uint64_t ticks) {
  const PhaseLabel label{names_.id(range.name, range.text), range.source, range.instance};
  phases_.begin_range(range.id, label, live_.moment(ticks));
}

void AllocationContext::end_range(const RangeEndEvent& range, uint64_t ticks) {
  phases_.end_range(range.id, live_.moment(ticks));
}

void AllocationContext::push_tag(const TagPushEvent& tag, uint32_t slot) {
  threads_[slot].tags.push_back(names_.id(tag.name, tag.text));
  ++version_;
}

void AllocationContext::pop_tag(uint32_t slot) {
  if (threads_[slot].tags.empty()) return;
  threads_[slot].tags.pop_back();
  ++version_;
}

SiteContext AllocationContext::context(const Event& event, uint8_t kind, int32_t device,
                                       uint32_t api) const {
  const std::vector<uint32_t>& tags = threads_[event.slot].tags;
  const uint32_t tag = tags.empty() ? 0 : tags.back();
  return {kind, device, phases_.innermost(event.slot), event.tid, api, tag, 0};
}

}  // namespace gpupeak::collector
