// Knows in which context memory is allocated: by which thread, in which phase, for which tag. It
// follows the threads of a log by its phases, ranges and tags, by the rules that its stacks match,
// and by the nodes of ONNX Runtime's profiles. Replay tells it of every event; the heap's and the
// device's part ask it when a block is allocated.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/event.h"
#include "collector/log/log_reader.h"
#include "collector/log/ort_profile.h"
#include "collector/replay/live_memory.h"
#include "collector/replay/phase_tree.h"
#include "collector/replay/troubles.h"
#include "collector/rules/stack_rules.h"
#include "collector/text/numbers.h"

namespace gpupeak::collector {

// Names of phases, tags, marks and arenas as numbers. Strings of the log keep their ids; names that
// records write out, and names of rules, have numbers behind these.

class NameTable {
 public:
  explicit NameTable(const Definitions& definitions) : definitions_(definitions) {}

  /// The number of a record's name: the log's string `name` or, where that is 0, `text`.
  uint32_t id(uint32_t name, std::string_view text);
  /// The number of a name that no record gives: the log's first string with this text or, without
  /// one, a number of its own.
  uint32_t id_of(std::string_view text);
  /// The name with this number.
  std::string_view text(uint32_t id) const;

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
  NodePhases(const LogReader& log, NameTable& names);

  /// When the next node begins or ends.
  uint64_t next_ticks() const { return next_ticks_; }
  /// Begins and ends all nodes up to `ticks`. `slot_of`: the slot that a thread has now, or
  /// kNoSlot.
  static constexpr uint32_t kNoSlot = UINT32_MAX;
  void pass(uint64_t ticks, const std::function<uint32_t(uint32_t tid)>& slot_of, LiveMemory& live,
            PhaseTree& phases);

  /// What is missing, and why. Call it after the last event.
  std::vector<std::string> problems() const;

 private:
  struct Border {
    uint64_t ticks;
    uint32_t span;
    bool is_end;
  };

  bool runs(const PhaseTree& phases, uint32_t slot, uint64_t session);

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
                    ReplayObserver* observer);
  /// Adds the phases of rules. Call it before the first event. `rules` must outlive this.
  void use_rules(const StackPhases& rules);
  bool has_rules() const { return rules_ != nullptr; }

  /// Whether this event is of another slot than the one before. With rules, the caller then calls
  /// turn_to() before the event and wake() after it.
  bool turns_to(uint32_t slot) const { return slot != active_slot_; }
  void turn_to(uint32_t slot, uint64_t last_ticks);
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
  void change_thread(const Event& event);
  /// Sets the phase that a rule gives this stack. Call it before an event with a stack is counted.
  void enter_rule(const Event& event, uint32_t stack) {
    if (rules_ != nullptr) [[unlikely]]
      change_rule(event, stack);
  }
  void push(const PhasePushEvent& phase, const Event& event);
  void pop(const PhasePopEvent& phase, const Event& event);
  void begin_range(const RangeBeginEvent& range, uint64_t ticks);
  void end_range(const RangeEndEvent& range, uint64_t ticks);
  void push_tag(const TagPushEvent& tag, uint32_t slot);
  /// A pop without a push changes nothing: the push may have been lost.
  void pop_tag(uint32_t slot);
  void finish(uint64_t ticks) {
    pass_nodes(ticks);
    phases_.finish(live_.moment(ticks));
  }

  /// The context of a block that this event allocates.
  SiteContext context(const Event& event, uint8_t kind, int32_t device = -1,
                      uint32_t api = 0) const;
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

  [[gnu::noinline]] void change_nodes(uint64_t ticks);
  [[gnu::noinline]] void change_rule(const Event& event, uint32_t stack);

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
