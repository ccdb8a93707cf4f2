// Rules that name what a call stack stands for: phases and tags. They come from TOML files, from
// the sets built into the command and from its options; docs/rules.md describes them for users.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/symbols/name_rules.h"

namespace gpupeak::collector {

/// Holds if one frame of the stack fits. Of each list one glob has to match; an empty list does not
/// matter.
struct Rule {
  std::string name;
  std::vector<std::string> functions;  ///< demangled, with or without its parameters
  std::vector<std::string> modules;    ///< the file's name without its folder
  std::vector<std::string> files;      ///< of source code; without a slash: of its name alone
  std::vector<std::string> phases;     ///< tags only: of the allocation, beside what the frame says
  bool by_call = false;                ///< phases only: each call of the function is one

  bool wants_frame() const { return !functions.empty() || !modules.empty() || !files.empty(); }
};

struct RuleSet {
  std::string name;
  std::string description;
  std::vector<std::string> chosen_by;  ///< modules of the log that make it apply by itself
  std::vector<Rule> phases;            ///< of several that match one frame the first counts
  std::vector<Rule> tags;
  std::vector<std::string> arenas;  ///< names of those that the library is to look into
  NameRules names;
};

/// `origin` is what messages call the text. Throws UsageError with the line of what is wrong.
RuleSet parse_rules(std::string_view toml, const std::string& origin);

/// NAME=[MODULE!]FUNCTION, as options have it. Throws UsageError.
Rule parse_rule_option(std::string_view text);
/// The same of a phase, which may have a # behind it: each call is one.
Rule parse_phase_option(std::string_view text);

}  // namespace gpupeak::collector
