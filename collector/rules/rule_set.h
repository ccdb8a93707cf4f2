// Rules that name what a call stack stands for: phases and tags. They come from TOML files, from
// the sets built into the command, and from its options. docs/rules.md describes them for users.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/symbols/name_rules.h"

namespace gpupeak::collector {

/// A rule that holds if one frame of the stack matches. One glob of each list has to match; an
/// empty list matches all.
struct Rule {
  std::string name;
  std::vector<std::string> functions;  ///< demangled, with or without parameters
  std::vector<std::string> modules;    ///< the file's name without its folder
  std::vector<std::string> files;   ///< source files; a glob without a slash matches the name alone
  std::vector<std::string> phases;  ///< only for tags: the allocation must also be in such a phase
  bool by_call = false;             ///< only for phases: each call of the function is one

  bool wants_frame() const { return !functions.empty() || !modules.empty() || !files.empty(); }
};

struct RuleSet {
  std::string name;
  std::string description;
  std::vector<std::string> chosen_by;  ///< if the log has such a module, the set applies by itself
  std::vector<Rule> phases;            ///< if several match a frame, the first counts
  std::vector<Rule> tags;
  std::vector<std::string> arenas;  ///< names of the arenas that the library is to look into
  NameRules names;
};

/// `origin` is what messages call the text. Throws UsageError with the line of what is wrong.
RuleSet parse_rules(std::string_view toml, const std::string& origin);

/// Reads NAME=[MODULE!]FUNCTION, which options have. Throws UsageError.
Rule parse_rule_option(std::string_view text);
/// The same for a phase. It may have a # at its end: each call is a phase then.
Rule parse_phase_option(std::string_view text);

}  // namespace gpupeak::collector
