// Knows in which context memory is allocated: by which thread, in which phase, for which tag. It
// follows the threads of a log by its phases, ranges and tags, by the rules that its stacks match,
// and by the nodes of ONNX Runtime's profiles. Replay tells it of every event; the heap's and the
// device's part ask it when a block is allocated.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/phase_tree.h"
#include "collector/replay/troubles.h"
#include "collector/rules/stack_rules.h"
#include "collector/text/lists.h"

namespace gpupeak::collector {

// Names of phases, tags, marks and arenas as numbers. Strings of the log keep their ids; names that
// records write out, and names of rules, have numbers behind these.

class NameTable {
 public:
  explicit NameTable(const Definitions& definitions) : definitions_(definitions) {}

  /// The number of a record's name: the log's string `name` or, where that is 0, `text`.
  uint32_t id(uint32_t name, std::string_view text) {
    const size_t first = definitions_.strings().size();
    if (name != 0 || text.empty()) return name < first ? name : 0;
    return static_cast<uint32_t>(first) + written_out_.of(std::string(bounded_name(text)));
  }
  /// The number of a name that no record gives: the log's first string with this text or, without
  /// one, a number of its own.
  uint32_t id_of(std::string_view text) {
    const std::vector<std::string_view>& strings = definitions_.strings();
    const auto known = std::ranges::find(strings, text);
    return known == strings.end() ? id(0, text) : static_cast<uint32_t>(known - strings.begin());
  }
  /// The name with this number.
  std::string_view text(uint32_t id) const {
    const size_t first = definitions_.strings().size();
    if (id < first) return definitions_.string(id);
    const auto number = static_cast<uint32_t>(id - first);
    if (number >= written_out_.all().size()) return {};  // a damaged log
    return written_out_[number];
  }

 private:
  const Definitions& definitions_;
  Numbers<std::string> written_out_;
};

// Phases of ONNX Runtime's nodes. No event of the log has them: they are in a profile with times of
// its own, so they begin and end between events. A node has a phase only while its session runs.
// The phase is in the node's thread; if that thread is the one that runs the session, below that
// run.

class NodePhases {
 public:
  NodePhases(const LogReader& log, NameTable& names)
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

  /// When the next node begins or ends.
  uint64_t next_ticks() const { return next_ticks_; }
  /// Begins and ends all nodes up to `ticks`. `slot_of`: the slot that a thread has now, or
  /// kNoSlot.
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  void pass(uint64_t ticks, const std::function<uint32_t(uint32_t tid)>& slot_of, LiveMemory& live,
            PhaseTree& phases) {
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

  /// What is missing, and why. Call it after the last event.
  std::vector<std::string> problems() const {
    std::vector<std::string> problems = profiles_.problems;
    uint64_t misplaced = misplaced_;
    for (size_t i = next_; i < borders_.size(); ++i) misplaced += borders_[i].is_end ? 0 : 1;
    if (misplaced > 0) {
      problems.push_back(
          fmt::format("{} of {} node runs of ONNX Runtime's profiles lie outside of the runs of "
                      "their session, as if the clock had been set meanwhile: they have no phase",
                      misplaced, profiles_.spans.size()));
    }
    return problems;
  }

 private:
  struct Border {
    uint64_t ticks;
    uint32_t span;
    bool is_end;
  };

  /// Whether the session runs in this thread. If this thread is in no call of ONNX Runtime: whether
  /// it runs in another one.
  bool runs(const PhaseTree& phases, uint32_t slot, uint64_t session) {
    const std::vector<Phase>& all = phases.phases();
    const auto is_run = [&](const Phase& phase) {
      return phase.source == GPUPEAK_PHASE_ORT && names_.text(phase.name) == "run";
    };
    for (PhaseId id = phases.innermost(slot); id != 0; id = all[id].parent) {
      if (all[id].source == GPUPEAK_PHASE_ORT)
        return is_run(all[id]) && all[id].instance == session;
    }
    for (; seen_phases_ < all.size(); ++seen_phases_) {
      if (is_run(all[seen_phases_])) runs_.push_back(static_cast<PhaseId>(seen_phases_));
    }
    return std::ranges::any_of(
        runs_, [&](PhaseId id) { return all[id].instance == session && all[id].open > 0; });
  }

  NodeProfiles profiles_;
  const NameTable& names_;
  std::vector<Border> borders_;     // in the order of time
  std::vector<uint32_t> name_ids_;  // of profiles_.names
  std::vector<uint32_t> slots_;     // by span: the slot that has its phase
  std::vector<PhaseId> runs_;       // the phases `run` of all sessions
  // The next of borders_; phases that were looked through for runs_.
  size_t next_ = 0, seen_phases_ = 0;
  uint64_t next_ticks_ = UINT64_MAX;
  uint64_t misplaced_ = 0;
};

class AllocationContext {
 public:
  AllocationContext(const LogReader& log, LiveMemory& live, ReplayTroubles& troubles,
                    ReplayObserver* observer)
      : live_(live),
        troubles_(troubles),
        stack_count_(log.definitions().logged_node_count()),
        names_(log.definitions()),
        phases_(observer),
        nodes_(log, names_),
        threads_(log.slots().size()) {}
  /// Adds the phases of rules. Call it before the first event. `rules` must outlive this.
  void use_rules(const StackPhases& rules) {
    if (rules.rule_count() == 0) return;
    rules_ = &rules;
    for (uint32_t rule = 0; rule < rules.rule_count(); ++rule)
      rule_names_.push_back(names_.id_of(rules.name(rule)));
  }
  bool has_rules() const { return rules_ != nullptr; }

  /// Whether this event is of another slot than the one before. With rules, the caller then calls
  /// turn_to() before the event and wake() after it.
  bool turns_to(uint32_t slot) const { return slot != active_slot_; }
  void turn_to(uint32_t slot, uint64_t last_ticks) {
    if (active_slot_ < threads_.size() && threads_[active_slot_].rule != kNoRule)
      phases_.rest(active_slot_, live_.moment(last_ticks));
    active_slot_ = slot;
  }
  void wake(uint32_t slot) { phases_.wake(slot); }

  /// Begins and ends the nodes of profiles up to this time. Call it first for each event.
  void pass_nodes(uint64_t ticks) {
    if (ticks >= nodes_.next_ticks()) [[unlikely]]
      change_nodes(ticks);
  }
  /// Whether the event's slot has another thread now; if so, call change_thread() before the event
  /// is counted. tid 0: a vforked child began the chunk, and its thread is not known.
  bool changes_thread(const Event& event) const {
    return threads_[event.slot].tid != event.tid && event.tid != 0;
  }
  void change_thread(const Event& event) {
    Thread& thread = threads_[event.slot];
    if (thread.tid != 0) phases_.end_thread(event.slot, live_.moment(event.ticks));
    thread.tid = event.tid;
    thread.tags.clear();
    ++version_;
  }
  /// Sets the phase that a rule gives this stack. Call it before an event with a stack is counted.
  void enter_rule(const Event& event, uint32_t stack) {
    if (rules_ != nullptr) [[unlikely]]
      change_rule(event, stack);
  }
  void push(const PhasePushEvent& phase, const Event& event) {
    const PhaseLabel label{names_.id(phase.name, phase.text), phase.source, phase.instance};
    phases_.push({phase.of_process, event.slot}, label, live_.moment(event.ticks));
    ++version_;
  }
  void pop(const PhasePopEvent& phase, const Event& event) {
    phases_.pop({phase.of_process, event.slot}, {0, phase.source, phase.instance},
                live_.moment(event.ticks));
    ++version_;
  }
  void begin_range(const RangeBeginEvent& range, uint64_t ticks) {
    const PhaseLabel label{names_.id(range.name, range.text), range.source, range.instance};
    phases_.begin_range(range.id, label, live_.moment(ticks));
  }
  void end_range(const RangeEndEvent& range, uint64_t ticks) {
    phases_.end_range(range.id, live_.moment(ticks));
  }
  void push_tag(const TagPushEvent& tag, uint32_t slot) {
    threads_[slot].tags.push_back(names_.id(tag.name, tag.text));
    ++version_;
  }
  /// A pop without a push changes nothing: the push may have been lost.
  void pop_tag(uint32_t slot) {
    if (threads_[slot].tags.empty()) return;
    threads_[slot].tags.pop_back();
    ++version_;
  }
  void finish(uint64_t ticks) {
    pass_nodes(ticks);
    phases_.finish(live_.moment(ticks));
  }

  /// The context of a block that this event allocates.
  SiteContext context(const Event& event, uint8_t kind, int32_t device = -1,
                      uint32_t api = 0) const {
    const std::vector<uint32_t>& tags = threads_[event.slot].tags;
    const uint32_t tag = tags.empty() ? 0 : tags.back();
    return {kind, device, phases_.innermost(event.slot), event.tid, api, tag, 0};
  }
  /// Changes whenever a thread's context may have changed.
  uint64_t version() const { return version_; }
  /// The stack, or 0 if the log does not define it.
  uint32_t defined_stack(uint32_t stack) {
    if (stack < stack_count_) [[likely]]
      return stack;
    ++troubles_.undefined_stacks;
    return 0;
  }

  const PhaseTree& phases() const { return phases_; }
  void watch(GrowthTable& growth) { phases_.watch(growth); }
  const NodePhases& nodes() const { return nodes_; }
  NameTable& names() { return names_; }
  const NameTable& names() const { return names_; }
  uint32_t thread_of(uint32_t slot) const { return threads_[slot].tid; }

 private:
  struct Thread {
    uint32_t tid = 0;
    uint32_t rule = kNoRule;      // by its last stack that tells a rule
    bool rule_by_python = false;  // `rule` goes by a frame of Python's
    uint64_t callers = 0;  // of a rule with phases by call: from where its function was called
    uint64_t rule_valid_for = 0;  // version_ when the rule was set
    std::vector<uint32_t> tags;   // name ids, the innermost last
  };

  [[gnu::noinline]] void change_nodes(uint64_t ticks) {
    const auto slot_of = [this](uint32_t tid) {
      for (uint32_t slot = 0; slot < threads_.size(); ++slot) {
        if (threads_[slot].tid == tid) return slot;
      }
      return NodePhases::kNoSlot;
    };
    nodes_.pass(ticks, slot_of, live_, phases_);
    ++version_;
  }
  [[gnu::noinline]] void change_rule(const Event& event, uint32_t stack) {
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

  LiveMemory& live_;
  ReplayTroubles& troubles_;
  const size_t stack_count_;
  NameTable names_;
  PhaseTree phases_;
  NodePhases nodes_;
  std::vector<Thread> threads_;  // by slot
  const StackPhases* rules_ = nullptr;
  std::vector<uint32_t> rule_names_;   // by rule: name ids
  uint32_t active_slot_ = UINT32_MAX;  // the slot of the last event; kept only with rules
  uint64_t version_ = 1;
};

}  // namespace gpupeak::collector
