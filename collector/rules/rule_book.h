// Chooses the rules that apply to a log: those of the options, of files, and of the sets that are
// built into the command. analyze() asks for them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/log/log_reader.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/name_rules.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {

// Rules that name what a call stack stands for: phases and tags. They come from TOML files, from
// the sets built into the command, and from its options. docs/rules.md describes them for users.

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

// How a log is to be read, by the options that all reading verbs share.
struct Reading {
  Sanitizer sanitizer;  ///< shows the log's texts
  SymbolSearch search;  ///< for functions and lines
  RuleChoice rules;     ///< the rules that name phases and tags
  HeapReading heap = HeapReading::kAll;
};

}  // namespace gpupeak::collector
