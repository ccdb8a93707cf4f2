#include "collector/rules/rule_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "collector/files/regular_file.h"
#include "collector/text/error.h"
#include "collector/text/file_name.h"
#include "collector/text/glob.h"
#include "collector/text/sanitize.h"

namespace gpupeak::collector {
namespace {

void append(std::vector<Rule>& to, const std::vector<Rule>& rules) {
  to.insert(to.end(), rules.begin(), rules.end());
}

RuleSet builtin_set(const BuiltinRules& rules) {
  RuleSet set = parse_rules(rules.toml, fmt::format("built-in rules {}", rules.name));
  set.name = rules.name;
  return set;
}

/// The built-in sets, read once: reading them takes longer than reading a small log.
const std::vector<RuleSet>& builtin_sets() {
  static const std::vector<RuleSet> sets = [] {
    std::vector<RuleSet> all;
    for (const BuiltinRules& rules : builtin_rules()) all.push_back(builtin_set(rules));
    return all;
  }();
  return sets;
}

std::string names_of_builtin_sets() {
  std::string names;
  for (const BuiltinRules& rules : builtin_rules()) {
    names += (names.empty() ? "" : ", ") + std::string(rules.name);
  }
  return names;
}

bool applies(const RuleSet& set, const Definitions& definitions) {
  return std::any_of(
      definitions.modules().begin(), definitions.modules().end(), [&](const Module& module) {
        const std::string_view name = file_name(module.path);
        return std::any_of(set.chosen_by.begin(), set.chosen_by.end(),
                           [&](const std::string& glob) { return glob_match(glob, name); });
      });
}

}  // namespace

RuleSet read_rule_set(const std::string& name) {
  for (const RuleSet& set : builtin_sets()) {
    if (set.name == name) return set;
  }
  constexpr uint64_t kMostBytes = 4 << 20;
  const std::optional<std::string> text = read_regular(name, kMostBytes);
  if (!text) {
    throw UsageError(
        fmt::format("rules '{}': no such set ({}, none), and no file that can be read: {}",
                    escape(name), names_of_builtin_sets(), strerror(errno)));
  }
  RuleSet set = parse_rules(*text, escape(name));
  if (set.name.empty()) set.name = name;
  return set;
}

const NameRules& builtin_name_rules() {
  static const NameRules names = [] {
    NameRules all;
    for (const RuleSet& set : builtin_sets()) all.append(set.names);
    return all;
  }();
  return names;
}

RuleBook choose_rules(const RuleChoice& choice, const Definitions& definitions) {
  RuleBook book;
  for (const std::string& phase : choice.phases) book.phases.push_back(parse_phase_option(phase));
  for (const std::string& tag : choice.tags) book.tags.push_back(parse_rule_option(tag));
  const auto choose_by_modules = [&] {
    book.automatic = book.sets.empty();
    for (const RuleSet& set : builtin_sets()) {
      if (!applies(set, definitions)) continue;
      book.sets.push_back(set.name);
      append(book.tags, set.tags);
    }
  };
  for (const std::string& name : choice.sets) {
    if (name == "none") continue;
    if (name == "auto") {
      choose_by_modules();
      continue;
    }
    const RuleSet set = read_rule_set(name);
    book.sets.push_back(definitions.shown(set.name));
    book.automatic = false;
    append(book.phases, set.phases);
    append(book.tags, set.tags);
  }
  if (choice.sets.empty()) choose_by_modules();
  return book;
}

}  // namespace gpupeak::collector
