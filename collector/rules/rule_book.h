// Chooses the rules that apply to a log: those of the options, of files, and of the sets that are
// built into the command. analyze() asks for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/rules/rule_set.h"

namespace gpupeak::collector {

/// A built-in rule set. builtin_rules() has them in the order in which they apply.
struct BuiltinRules {
  std::string_view name;
  std::string_view toml;
};
const std::vector<BuiltinRules>& builtin_rules();
/// What all built-in sets say about names.
const NameRules& builtin_name_rules();

/// The rules that a user asks for.
struct RuleChoice {
  /// Names of built-in sets, or files. `none`: no set. Empty or `auto`: the tags of those built-in
  /// sets whose modules the log has.
  std::vector<std::string> sets;
  std::vector<std::string> phases, tags;  ///< NAME=[MODULE!]FUNCTION; they apply before the sets
};

struct RuleBook {
  std::vector<std::string> sets;  ///< names, in the order in which they apply
  bool automatic = false;         ///< the log's modules chose the sets
  std::vector<Rule> phases, tags;
};

/// The built-in set of this name, or the set in this file. Throws UsageError.
RuleSet read_rule_set(const std::string& name);

/// The rules for a log. Throws UsageError for rules that cannot be read.
RuleBook choose_rules(const RuleChoice& choice, const Definitions& definitions);

}  // namespace gpupeak::collector
