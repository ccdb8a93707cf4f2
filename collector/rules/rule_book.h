// Which rules apply to a log: those of the options, of files, and of the sets that are built into
// the command. analyze() asks for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/rules/rule_set.h"

namespace gpupeak::collector {

/// The rule sets built in, in the order in which they apply.
struct BuiltinRules {
  std::string_view name;
  std::string_view toml;
};
const std::vector<BuiltinRules>& builtin_rules();
/// What all of them say about names.
const NameRules& builtin_name_rules();

/// As a user asks for them.
struct RuleChoice {
  /// Names of built-in sets or files. `none`: no set. Empty, or `auto`: of the built-in sets the
  /// tags of those whose modules the log has.
  std::vector<std::string> sets;
  std::vector<std::string> phases, tags;  ///< NAME=[MODULE!]FUNCTION; they come before the sets
};

struct RuleBook {
  std::vector<std::string> sets;  ///< names, in order
  bool automatic = false;         ///< the log's modules chose all of the sets
  std::vector<Rule> phases, tags;
};

/// The set of this name, or the file. Throws UsageError.
RuleSet read_rule_set(const std::string& name);

/// Throws UsageError for rules that cannot be read.
RuleBook choose_rules(const RuleChoice& choice, const Definitions& definitions);

}  // namespace gpupeak::collector
