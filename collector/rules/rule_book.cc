#include "collector/rules/rule_book.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "collector/files/regular_file.h"
#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

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

namespace {

constexpr std::string_view kAny = "*";

class RuleReader {
 public:
  explicit RuleReader(const std::string& origin) : origin_(origin) {}

  RuleSet read(const toml::table& table) {
    RuleSet set;
    for (const auto& [key, value] : table) {
      if (key == "name") {
        set.name = text(key, value);
      } else if (key == "description") {
        set.description = text(key, value);
      } else if (key == "modules") {
        set.chosen_by = texts(key, value);
      } else if (key == "phase") {
        set.phases =
            each<Rule>(key, value, [this](const toml::table& part) { return rule(part, false); });
      } else if (key == "tag") {
        set.tags =
            each<Rule>(key, value, [this](const toml::table& part) { return rule(part, true); });
      } else if (key == "class") {
        set.names.classes = each<ClassRule>(
            key, value, [this](const toml::table& part) { return class_rule(part); });
      } else if (key == "table") {
        set.names.tables = each<TableRule>(
            key, value, [this](const toml::table& part) { return table_rule(part); });
      } else if (key == "pool") {
        set.arenas = each<std::string>(
            key, value, [this](const toml::table& part) { return arena_name(part); });
      } else if (key == "plumbing") {
        set.names.plumbing = each<FrameGlobs>(
            key, value, [this](const toml::table& part) { return frame_globs(part); });
      } else if (key == "landmark") {
        set.names.landmarks = each<FrameGlobs>(
            key, value, [this](const toml::table& part) { return frame_globs(part); });
      } else {
        fail(value,
             fmt::format("no such key '{}': there are name, description, modules, [[phase]], "
                         "[[tag]], [[class]], [[table]], [[pool]], [[plumbing]] and [[landmark]]",
                         escape(key.str())));
      }
    }
    return set;
  }

 private:
  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw UsageError(
        fmt::format("{}:{}: {}", origin_, static_cast<uint64_t>(node.source().begin.line), what));
  }

  std::string text(const toml::key& key, const toml::node& node) const {
    const auto value = node.value<std::string>();
    if (!node.is_string() || !value || value->empty()) {
      fail(node, fmt::format("'{}' must be a text", escape(key.str())));
    }
    return *value;
  }

  /// One text or a list of them.
  std::vector<std::string> texts(const toml::key& key, const toml::node& node) const {
    const toml::array* list = node.as_array();
    if (list == nullptr) return {text(key, node)};
    std::vector<std::string> found;
    for (const toml::node& part : *list) found.push_back(text(key, part));
    if (found.empty()) fail(node, fmt::format("'{}' is empty", escape(key.str())));
    return found;
  }

  template <typename T, typename Read>
  std::vector<T> each(const toml::key& key, const toml::node& node, Read read) const {
    const toml::array* list = node.as_array();
    if (list == nullptr) fail(node, fmt::format("write [[{}]]", escape(key.str())));
    std::vector<T> found;
    for (const toml::node& part : *list) {
      const toml::table* table = part.as_table();
      if (table == nullptr) fail(part, fmt::format("write [[{}]]", escape(key.str())));
      found.push_back(read(*table));
    }
    return found;
  }

  FrameGlobs frame_globs(const toml::table& table) const {
    FrameGlobs globs;
    for (const auto& [name, value] : table) {
      if (name == "function") {
        globs.functions = texts(name, value);
      } else if (name == "module") {
        globs.modules = texts(name, value);
      } else {
        fail(value,
             fmt::format("no such key '{}': there are function and module", escape(name.str())));
      }
    }
    if (globs.functions.empty() && globs.modules.empty()) fail(table, "give function or module");
    return globs;
  }

  ClassRule class_rule(const toml::table& table) const {
    ClassRule rule;
    for (const auto& [key, value] : table) {
      if (key == "name") {
        rule.name = text(key, value);
      } else if (key == "library") {
        rule.libraries = texts(key, value);
      } else if (key == "versions") {
        const std::string range = text(key, value);
        const size_t to = range.find(" to ");
        rule.first = parse_version(range.substr(0, to));
        rule.last = to == std::string::npos ? rule.first : parse_version(range.substr(to));
        if (rule.first.empty() || rule.last.empty()) {
          fail(value, "'versions' must read like '1.15 to 1.22' or '1.29'");
        }
      } else if (key == "slots") {
        rule.slots = slots(value);
      } else {
        fail(value,
             fmt::format("no such key '{}' in a class: there are name, library, versions and "
                         "slots",
                         escape(key.str())));
      }
    }
    if (rule.name.empty()) fail(table, "the class has no name");
    if (rule.libraries.empty()) fail(table, "the class has no library");
    if (rule.slots.empty()) fail(table, "the class has no slots");
    return rule;
  }

  TableRule table_rule(const toml::table& table) const {
    TableRule rule;
    for (const auto& [key, value] : table) {
      if (key == "name") {
        rule.name = text(key, value);
      } else if (key == "library") {
        rule.libraries = texts(key, value);
      } else if (key == "entry") {
        rule.entry = text(key, value);
      } else if (key == "through") {
        rule.through = slot(key, value);
      } else if (key == "functions") {
        rule.functions = each<TableRule::Function>(
            key, value, [this](const toml::table& part) { return table_function(part); });
      } else {
        fail(value, fmt::format("no such key '{}' in a table: there are name, library, entry, "
                                "through and functions",
                                escape(key.str())));
      }
    }
    if (rule.name.empty()) fail(table, "the table has no name");
    if (rule.libraries.empty()) fail(table, "the table has no library");
    if (rule.entry.empty()) fail(table, "the table has no entry");
    if (rule.functions.empty()) fail(table, "the table has no functions");
    return rule;
  }

  TableRule::Function table_function(const toml::table& table) const {
    TableRule::Function function;
    bool has_slot = false;
    for (const auto& [key, value] : table) {
      if (key == "slot") {
        function.slot = slot(key, value);
        has_slot = true;
      } else if (key == "name") {
        function.name = text(key, value);
      } else if (key == "since") {
        function.since = parse_version(text(key, value));
        if (function.since.empty()) fail(value, "'since' must read like '1.16'");
      } else {
        fail(value, fmt::format("no such key '{}' in a function: there are slot, name and since",
                                escape(key.str())));
      }
    }
    if (!has_slot || function.name.empty()) fail(table, "a function has a slot and a name");
    return function;
  }

  /// The library that records reads these parts itself (preload/hooks/arena_rule_book.h), and knows
  /// less of TOML. What is wrong with them is told here, where there is a terminal.
  std::string arena_name(const toml::table& table) const {
    constexpr int64_t kLastArgument = 5, kMostSlots = 4095;
    std::string name;
    for (const auto& [key, value] : table) {
      const auto number = value.value<int64_t>();
      const bool is_number = value.is_integer() && number && *number >= 0;
      const bool is_argument = key == "size" || key == "address" || key == "given" || key == "pool";
      const bool is_slot = key == "functions" || key == "destructor";
      const bool is_text = key == "name" || key == "library" || key == "class" || key == "type";
      if (!is_argument && !is_slot && !is_text && key != "allocate" && key != "free") {
        fail(value, fmt::format("no such key '{}' in a pool: there are name, library, class, type, "
                                "functions, allocate, free, destructor, size, given, address and "
                                "pool",
                                escape(key.str())));
      }
      if (is_argument && (!is_number || *number > kLastArgument))
        fail(value, fmt::format("'{}' must be an argument's number, 0 to 5", escape(key.str())));
      if (is_slot && (!is_number || *number > kMostSlots))
        fail(value, fmt::format("'{}' must be a number", escape(key.str())));
      if (is_argument || is_slot || is_number) continue;
      const std::string given = text(key, value);
      if (given.find_first_of("\"'\\\n") != std::string::npos || given.size() > 255)
        fail(value, fmt::format("'{}' must be a plain text in quotes", escape(key.str())));
      if (key == "name") name = given;
    }
    if (name.empty() || name.size() > 47)
      fail(table, "a pool has a name, of 47 characters at most");
    const bool of_class = table.contains("class") || table.contains("type");
    for (const char* key : {"library", "allocate", "free", "size", "address"}) {
      if (!table.contains(key)) fail(table, fmt::format("the pool has no {}", key));
    }
    for (const char* key : {"allocate", "free"}) {
      if (table[key].is_integer() != of_class)
        fail(table, fmt::format("'{}' must be {}", key,
                                of_class ? "the number of a virtual function"
                                         : "the name of an exported function, or give the class"));
    }
    if (of_class && !table.contains("functions"))
      fail(table, "the pool has no functions: how many virtual ones its class has");
    return name;
  }

  bool truth(const toml::key& key, const toml::node& node) const {
    if (!node.is_boolean()) fail(node, fmt::format("'{}' must be true or false", key.str()));
    return node.value_or(false);
  }

  uint32_t slot(const toml::key& key, const toml::node& node) const {
    constexpr int64_t kMost = 4095;
    const auto value = node.value<int64_t>();
    if (!node.is_integer() || !value || *value < 0 || *value > kMost) {
      fail(node, fmt::format("'{}' must be a number from 0 to {}", escape(key.str()), kMost));
    }
    return static_cast<uint32_t>(*value);
  }

  /// The names of slots. An empty text is a function whose name is not known.
  std::vector<std::string> slots(const toml::node& node) const {
    const toml::array* list = node.as_array();
    std::vector<std::string> found;
    for (size_t i = 0; list != nullptr && i < list->size(); ++i) {
      const auto name = (*list)[i].value<std::string>();
      if (!(*list)[i].is_string() || !name) fail((*list)[i], "a slot must be a text");
      found.push_back(*name);
    }
    if (found.empty()) fail(node, "'slots' must be a list of texts");
    return found;
  }

  Rule rule(const toml::table& table, bool tag) const {
    Rule rule;
    for (const auto& [key, value] : table) {
      if (key == "name") {
        rule.name = text(key, value);
      } else if (key == "function") {
        rule.functions = texts(key, value);
      } else if (key == "module") {
        rule.modules = texts(key, value);
      } else if (key == "file") {
        rule.files = texts(key, value);
      } else if (key == "phase" && tag) {
        rule.phases = texts(key, value);
      } else if (key == "by_call" && !tag) {
        rule.by_call = truth(key, value);
      } else {
        fail(value, fmt::format("no such key '{}' in a rule: there are name, function, module, "
                                "file{}",
                                escape(key.str()), tag ? " and phase" : " and by_call"));
      }
    }
    if (rule.name.empty()) fail(table, "the rule has no name");
    if (!rule.wants_frame() && rule.phases.empty()) {
      fail(table, "the rule says nothing about a frame: give function, module or file");
    }
    return rule;
  }

  const std::string& origin_;
};

}  // namespace

RuleSet parse_rules(std::string_view toml, const std::string& origin) {
  try {
    return RuleReader(origin).read(toml::parse(toml));
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}:{}: {}", origin,
                                 static_cast<uint64_t>(error.source().begin.line),
                                 escape(error.description())));
  }
}

Rule parse_rule_option(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    throw UsageError(
        fmt::format("'{}' is no rule: write NAME=FUNCTION or NAME=MODULE!FUNCTION, with * and ?, "
                    "such as 'load=llama_model_load*'",
                    escape(text)));
  }
  Rule rule;
  rule.name = text.substr(0, equals);
  std::string_view function = text.substr(equals + 1);
  const size_t mark = function.find('!');
  if (mark != std::string_view::npos && !function.substr(0, mark).ends_with("operator")) {
    if (mark > 0) rule.modules.emplace_back(function.substr(0, mark));
    function.remove_prefix(mark + 1);
  }
  if (!function.empty() && (function != kAny || rule.modules.empty())) {
    rule.functions.emplace_back(function);
  }
  if (!rule.wants_frame()) {
    throw UsageError(fmt::format("'{}' names neither a module nor a function", escape(text)));
  }
  return rule;
}

Rule parse_phase_option(std::string_view text) {
  if (!text.ends_with('#')) return parse_rule_option(text);
  text.remove_suffix(1);
  if (text.ends_with('=') || text.ends_with('!'))
    throw UsageError(fmt::format("'{}#' names no function whose calls are meant", escape(text)));
  Rule rule = parse_rule_option(text);
  rule.by_call = true;
  return rule;
}

}  // namespace gpupeak::collector
