// Finds the rules that the stacks of a log match: which phase, tag or title a stack means.
//
// in    rule files (rule_book.h), and the log's trie of stacks
// out   for a node of the trie, the rule that holds there
//
//   rule     tag "weights" where a function is called load_weights
//   trie     main ─ run ─ load_weights ─ Linear.__init__ ─ cudaMalloc
//                            └ matches: this node and all below it are "weights"
//
// Each node is looked at once, and each function is compared with the rules once. Symbols are read
// only for modules in which a rule looks for functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/rules/rule_book.h"
#include "collector/symbols/symbolizer.h"

namespace gpupeak::collector {

inline constexpr uint32_t kNoRule = UINT32_MAX;

/// Whether a frame matches what the rule says of frames; true if it says nothing.
bool rule_matches(const Rule& rule, const Frame& frame);

/// Finds the rules that a node's own frames match.
class FrameRules {
 public:
  FrameRules(const Definitions& definitions, Symbolizer& symbolizer, std::vector<Rule> rules);

  const std::vector<Rule>& rules() const { return rules_; }
  const std::vector<StackNode>& nodes() const { return definitions_.nodes(); }
  /// All rules that the node matches, ascending. `node` must not be 0.
  std::vector<uint32_t> all(uint32_t node);
  /// The first rule of the node's outermost frame that matches any.
  uint32_t outermost(uint32_t node);

 private:
  /// The rules that a module's frames may match, and whether the module alone decides that.
  struct Candidates {
    std::vector<uint32_t> rules;
    bool by_module_alone = true;
  };
  const Candidates& candidates(const StackNode& node);
  /// The rules that a frame's module and function match, for any file.
  const std::vector<uint32_t>& of_function(uint32_t function_id, const Frame& frame,
                                           const Candidates& possible);

  const Definitions& definitions_;
  Symbolizer& symbolizer_;
  std::vector<Rule> rules_;
  std::unordered_map<uint32_t, Candidates> candidates_;  // by module
  std::unordered_map<uint32_t, std::vector<uint32_t>> of_function_;
};

/// Has for each stack the rule of its outermost frame that matches any: the phase that it is part
/// of. Looks at all nodes at once.
class StackPhases {
 public:
  StackPhases(const Definitions& definitions, Symbolizer& symbolizer,
              const std::vector<Rule>& rules);

  /// The index of a stack's rule, or kNoRule.
  uint32_t rule_of(uint32_t stack) const {
    return stack < rule_of_.size() ? rule_of_[stack] : kNoRule;
  }
  /// Whether the frame that the stack's rule matches is one of Python's.
  bool is_by_python(uint32_t stack) const { return has(stack, kByPython); }
  /// Whether the stack is within an interpreter and Python's frames were not read (small blocks):
  /// it does not tell which Python function runs.
  bool hides_python(uint32_t stack) const {
    return has(stack, kInterpreter) && !has(stack, kPython);
  }
  const std::string& name(uint32_t rule) const { return names_[rule]; }
  size_t rule_count() const { return names_.size(); }
  /// Whether each call of the rule's function is a phase.
  bool is_by_call(uint32_t rule) const { return by_call_[rule]; }
  /// Where the rule's function was called from, with all callers, as a number; 0: the stack does
  /// not tell, or no rule needs it.
  uint64_t callers_of(uint32_t stack) const {
    return stack < callers_.size() ? callers_[stack] : 0;
  }
  /// Whether two events with these callers must be of two calls. Stacks that end in different
  /// outermost frames are not compared, since the walk of one may not have reached its end.
  static bool are_of_two_calls(uint64_t callers, uint64_t others) {
    return callers != 0 && others != 0 && callers != others && callers >> 32 == others >> 32;
  }

 private:
  enum Flag : uint8_t { kInterpreter = 1, kPython = 2, kByPython = 4 };

  bool has(uint32_t stack, Flag flag) const {
    return stack < flags_.size() && (flags_[stack] & flag) != 0;
  }

  void note_callers(const Definitions& definitions, const std::vector<uint32_t>& matched);

  std::vector<std::string> names_;
  std::vector<bool> by_call_;      // by rule
  std::vector<uint64_t> callers_;  // by node: root << 32 | chain; empty: no rule has phases by call
  std::vector<uint32_t> rule_of_;  // by node
  std::vector<uint8_t> flags_;     // by node: for it and its callers
};

/// Has for each stack all rules that match any of its frames. Looks only at stacks that are asked
/// for.
class StackTags {
 public:
  explicit StackTags(FrameRules rules);

  /// The first rule that holds for an allocation with this stack in this phase (empty: in none);
  /// kNoRule: none does.
  uint32_t rule_of(uint32_t stack, std::string_view phase);
  const std::string& name(uint32_t rule) const { return rules_.rules()[rule].name; }

 private:
  const std::vector<uint32_t>& matches(uint32_t stack);

  FrameRules rules_;
  /// By node: the rules that match; nullptr: not asked for yet. A node that matches no more than
  /// its caller has the caller's list.
  std::vector<const std::vector<uint32_t>*> memory_;
  std::vector<std::unique_ptr<const std::vector<uint32_t>>> lists_;
};

}  // namespace gpupeak::collector
