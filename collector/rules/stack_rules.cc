#include "collector/rules/stack_rules.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <utility>

#include "collector/text/function_names.h"
#include "collector/text/name_match.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {
namespace {

bool module_matches(const Rule& rule, const Frame& frame) {
  return rule.modules.empty() || any_glob_matches(rule.modules, frame.module);
}

/// Compares the function's whole name, and its name as titles show it.
bool function_matches(const Rule& rule, const Frame& frame) {
  if (rule.functions.empty()) return true;
  if (frame.function.empty()) return false;
  if (any_glob_matches(rule.functions, frame.function)) return true;
  std::string name(without_signature(frame.function));
  if (any_glob_matches(rule.functions, name)) return true;
  constexpr std::string_view kAnonymous = "(anonymous namespace)::";
  const size_t size = name.size();
  for (size_t at = name.find(kAnonymous); at != std::string::npos; at = name.find(kAnonymous, at))
    name.erase(at, kAnonymous.size());
  return name.size() != size && any_glob_matches(rule.functions, name);
}

bool file_matches(const Rule& rule, const Frame& frame) {
  if (rule.files.empty()) return true;
  return std::ranges::any_of(rule.files, [&](const std::string& glob) {
    const bool whole = glob.find('/') != std::string::npos;
    return glob_match(glob, whole ? std::string_view(frame.file) : file_name(frame.file));
  });
}

/// By module: whether its frames call Python frames.
std::vector<bool> interpreters_of(const Definitions& definitions) {
  std::vector<bool> found(definitions.modules().size(), false);
  for (const StackNode& node : definitions.nodes()) {
    if (definitions.python_frame(node) == nullptr) continue;
    const StackNode& caller = definitions.nodes()[node.parent];
    if (caller.module != 0) found[caller.module] = true;
  }
  return found;
}

/// Numbers chains of callers, of frames of one language alone: events of one call may or may not
/// have Python frames between the native ones.
class Chains {
 public:
  struct Chain {
    uint32_t number = 0;  ///< equal for equal frames; 0: there are none
    uint32_t root = 0;    ///< equal if the outermost frames are
  };
  /// The chain with one more frame. `root`: what of the frame is always the same; used if it is the
  /// outermost.
  Chain longer(Chain callers, const StackNode& frame, uint64_t root) {
    const uint32_t number = number_of({callers.number, frame.module, frame.ip});
    return {number, callers.root != 0 ? callers.root : number_of({UINT32_MAX, frame.module, root})};
  }

 private:
  using Key = std::tuple<uint32_t, uint32_t, uint64_t>;
  uint32_t number_of(const Key& key) {
    return numbers_.try_emplace(key, static_cast<uint32_t>(numbers_.size() + 1)).first->second;
  }
  std::map<Key, uint32_t> numbers_;
};

}  // namespace

bool rule_matches(const Rule& rule, const Frame& frame) {
  return module_matches(rule, frame) && function_matches(rule, frame) && file_matches(rule, frame);
}

FrameRules::FrameRules(const Definitions& definitions, Symbolizer& symbolizer,
                       std::vector<Rule> rules)
    : definitions_(definitions), symbolizer_(symbolizer), rules_(std::move(rules)) {}

const FrameRules::Candidates& FrameRules::candidates(const StackNode& node) {
  const auto [entry, added] = candidates_.try_emplace(node.module);
  Candidates& found = entry->second;
  if (!added) return found;
  const std::string_view name = file_name(definitions_.modules()[node.module].path);
  // A node without a module may be code of another language, whose frames have modules of their
  // own.
  const bool unknown = node.module == 0;
  for (uint32_t i = 0; i < rules_.size(); ++i) {
    const Rule& rule = rules_[i];
    if (!rule.wants_frame()) continue;
    if (!unknown && !rule.modules.empty() && !any_glob_matches(rule.modules, name)) continue;
    found.rules.push_back(i);
    found.by_module_alone &= !unknown && rule.functions.empty() && rule.files.empty();
  }
  return found;
}

const std::vector<uint32_t>& FrameRules::of_function(uint32_t function_id, const Frame& frame,
                                                     const Candidates& possible) {
  const auto [entry, added] = of_function_.try_emplace(function_id);
  if (!added) return entry->second;
  for (const uint32_t rule : possible.rules) {
    if (module_matches(rules_[rule], frame) && function_matches(rules_[rule], frame))
      entry->second.push_back(rule);
  }
  return entry->second;
}

std::vector<uint32_t> FrameRules::all(uint32_t node) {
  const Candidates& possible = candidates(nodes()[node]);
  if (possible.by_module_alone) return possible.rules;
  const ResolvedAddress& resolved = symbolizer_.resolve(node);
  const std::vector<Frame>& frames = resolved.named_frames();
  std::vector<uint32_t> found;
  for (size_t i = 0; i < frames.size(); ++i) {
    for (const uint32_t rule : of_function(resolved.function_ids[i], frames[i], possible)) {
      if (file_matches(rules_[rule], frames[i])) found.push_back(rule);
    }
  }
  if (frames.size() > 1) {
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
  }
  return found;
}

uint32_t FrameRules::outermost(uint32_t node) {
  const Candidates& possible = candidates(nodes()[node]);
  if (possible.rules.empty()) return kNoRule;
  if (possible.by_module_alone) return possible.rules.front();
  const ResolvedAddress& resolved = symbolizer_.resolve(node);
  const std::vector<Frame>& frames = resolved.named_frames();
  for (size_t i = frames.size(); i-- > 0;) {
    for (const uint32_t rule : of_function(resolved.function_ids[i], frames[i], possible)) {
      if (file_matches(rules_[rule], frames[i])) return rule;
    }
  }
  return kNoRule;
}

StackPhases::StackPhases(const Definitions& definitions, Symbolizer& symbolizer,
                         const std::vector<Rule>& rules) {
  if (rules.empty()) return;
  FrameRules frames(definitions, symbolizer, rules);
  for (const Rule& rule : rules) {
    names_.push_back(rule.name);
    by_call_.push_back(rule.by_call);
  }
  const std::vector<StackNode>& nodes = definitions.nodes();
  rule_of_.resize(nodes.size(), kNoRule);
  flags_.resize(nodes.size(), 0);
  const std::vector<bool> interpreters = interpreters_of(definitions);
  const bool wants_calls = std::ranges::find(by_call_, true) != by_call_.end();
  // By node: the node of the rule's frame.
  std::vector<uint32_t> matched(wants_calls ? nodes.size() : 0);
  // A caller has a smaller number than what it calls.
  for (uint32_t node = 1; node < nodes.size(); ++node) {
    const StackNode& frame = nodes[node];
    const bool is_python = definitions.python_frame(frame) != nullptr;
    flags_[node] = flags_[frame.parent];
    if (is_python) flags_[node] |= kPython;
    if (interpreters[frame.module]) flags_[node] |= kInterpreter;
    const uint32_t outer = rule_of_[frame.parent];
    rule_of_[node] = outer != kNoRule ? outer : frames.outermost(node);
    if (outer == kNoRule && rule_of_[node] != kNoRule && is_python) flags_[node] |= kByPython;
    if (wants_calls && rule_of_[node] != kNoRule)
      matched[node] = outer != kNoRule ? matched[frame.parent] : node;
  }
  if (wants_calls) note_callers(definitions, matched);
}

/// Notes the callers of each stack. A return address does not change during a call, so two events
/// with different callers are of two calls.
void StackPhases::note_callers(const Definitions& definitions,
                               const std::vector<uint32_t>& matched) {
  const std::vector<StackNode>& nodes = definitions.nodes();
  struct Stack {
    Chains::Chain native, python;
    uint32_t depth = 0;
  };
  std::vector<Stack> stacks(nodes.size());
  Chains native, python;
  callers_.resize(nodes.size());
  for (uint32_t node = 1; node < nodes.size(); ++node) {
    const StackNode& frame = nodes[node];
    const Stack& below = stacks[frame.parent];
    Stack& stack = stacks[node] = below;
    ++stack.depth;
    if (const PythonFrame* function = definitions.python_frame(frame)) {
      // The same on all lines.
      const uint64_t root = uint64_t{function->function} << 32 | function->file;
      stack.python = python.longer(below.python, frame, root);
    } else {
      stack.native = native.longer(below.native, frame, frame.ip);
    }
    const bool may_be_cut = stack.depth >= GPUPEAK_MAX_FRAMES;  // its outer frames may be missing
    if (rule_of_[node] == kNoRule || !by_call_[rule_of_[node]] || may_be_cut) continue;
    const Stack& caller = stacks[nodes[matched[node]].parent];
    const Chains::Chain chain = is_by_python(node) ? caller.python : caller.native;
    callers_[node] = static_cast<uint64_t>(chain.root) << 32 | chain.number;
  }
}

StackTags::StackTags(FrameRules rules) : rules_(std::move(rules)) {
  // Rules that need no frame may hold for any stack.
  auto always = std::make_unique<std::vector<uint32_t>>();
  for (uint32_t i = 0; i < rules_.rules().size(); ++i) {
    if (!rules_.rules()[i].wants_frame()) always->push_back(i);
  }
  memory_.resize(rules_.nodes().size());
  memory_[0] = always.get();
  lists_.push_back(std::move(always));
}

const std::vector<uint32_t>& StackTags::matches(uint32_t stack) {
  std::vector<uint32_t> path;
  uint32_t node = stack;
  while (memory_[node] == nullptr) {
    path.push_back(node);
    node = rules_.nodes()[node].parent;
  }
  const std::vector<uint32_t>* list = memory_[node];
  for (; !path.empty(); path.pop_back()) {
    const std::vector<uint32_t> own = rules_.all(path.back());
    if (!std::includes(list->begin(), list->end(), own.begin(), own.end())) {
      auto both = std::make_unique<std::vector<uint32_t>>();
      std::set_union(list->begin(), list->end(), own.begin(), own.end(), std::back_inserter(*both));
      list = both.get();
      lists_.push_back(std::move(both));
    }
    memory_[path.back()] = list;
  }
  return *list;
}

uint32_t StackTags::rule_of(uint32_t stack, std::string_view phase) {
  for (const uint32_t rule : matches(stack)) {
    const std::vector<std::string>& phases = rules_.rules()[rule].phases;
    if (phases.empty() || (!phase.empty() && any_glob_matches(phases, phase))) return rule;
  }
  return kNoRule;
}

}  // namespace gpupeak::collector
