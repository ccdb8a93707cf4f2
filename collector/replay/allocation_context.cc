#include "collector/replay/allocation_context.h"

namespace gpupeak::collector {

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
