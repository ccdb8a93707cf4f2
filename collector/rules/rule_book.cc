#include "collector/rules/rule_book.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <sstream>

#include "collector/files/regular_file.h"
#include "collector/rules/cards.h"
#include "collector/text/error.h"
#include "collector/text/name_match.h"
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

/// The built-in sets, read once: reading them takes longer than reading a small log. They stay:
/// whoever waits for `run` need not wait until they are taken apart.
const std::vector<RuleSet>& builtin_sets() {
  static const auto& sets = *new std::vector<RuleSet>(list_of(builtin_rules(), builtin_set));
  return sets;
}

std::string names_of_builtin_sets() {
  return fmt::format("{}", fmt::join(list_of(builtin_rules(), &BuiltinRules::name), ", "));
}

bool applies(const RuleSet& set, const Definitions& definitions) {
  return std::ranges::any_of(definitions.modules(), [&](const Module& module) {
    return any_glob_matches(set.chosen_by, file_name(module.path));
  });
}

constexpr std::string_view kAny = "*";

/// Reads tables of TOML. Each key says what reads its value; what is wrong throws UsageError with
/// its line.
class TomlReader {
 public:
  explicit TomlReader(const std::string& origin) : origin_(origin) {}

 protected:
  [[noreturn]] void fail(const toml::node& node, const std::string& what) const {
    throw UsageError("{}:{}: {}", origin_, static_cast<uint64_t>(node.source().begin.line), what);
  }

  std::string text(const toml::key& key, const toml::node& node) const {
    const auto value = node.value<std::string>();
    if (!node.is_string() || !value || value->empty())
      fail(node, fmt::format("'{}' must be a text", escape(key.str())));
    return *value;
  }

  /// One value or a list of them.
  template <typename Read>
  auto list_of(const toml::key& key, const toml::node& node, Read read) const {
    std::vector<decltype(read(node))> found;
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& part : *list) found.push_back(read(part));
    } else {
      found.push_back(read(node));
    }
    if (found.empty()) fail(node, fmt::format("'{}' is empty", escape(key.str())));
    return found;
  }
  std::vector<std::string> texts(const toml::key& key, const toml::node& node) const {
    return list_of(key, node, [&](const toml::node& part) { return text(key, part); });
  }

  /// What a table may have under a key.
  struct Key {
    std::string_view name;
    std::function<void(const toml::key& key, const toml::node& value)> read;
    bool is_section = false;
  };
  /// Reads a table. Throws UsageError for keys that it may not have. `in`: " in a class".
  void read_keys(const toml::table& table, std::string_view in,
                 std::initializer_list<Key> known) const {
    for (const auto& [key, value] : table) {
      const auto found = std::ranges::find(known, key.str(), &Key::name);
      if (found == known.end()) {
        std::string all;
        for (const Key& one : known) {
          const bool is_last = &one == known.end() - 1;
          all += all.empty() ? "" : is_last ? " and " : ", ";
          all += one.is_section ? fmt::format("[[{}]]", one.name) : one.name;
        }
        fail(value, fmt::format("no such key '{}'{}: there are {}", escape(key.str()), in, all));
      }
      found->read(key, value);
    }
  }

  Key to(std::string_view name, std::string& field) const {
    return {name, [&, this](const auto& key, const auto& value) { field = text(key, value); }};
  }
  Key to(std::string_view name, std::vector<std::string>& field) const {
    return {name, [&, this](const auto& key, const auto& value) { field = texts(key, value); }};
  }
  Key to(std::string_view name, std::optional<uint32_t>& field) const {
    return {name, [&, this](const auto& key, const auto& value) { field = slot(key, value); }};
  }

  template <typename T, typename Read>
  Key each(std::string_view name, std::vector<T>& found, Read read) const {
    return {name,
            [&found, read, this](const toml::key& key, const toml::node& value) {
              const toml::array* list = value.as_array();
              if (list == nullptr) fail(value, fmt::format("write [[{}]]", escape(key.str())));
              for (const toml::node& part : *list) {
                const toml::table* table = part.as_table();
                if (table == nullptr) fail(part, fmt::format("write [[{}]]", escape(key.str())));
                found.push_back(read(*table));
              }
            },
            true};
  }

  uint32_t slot(const toml::key& key, const toml::node& node) const {
    constexpr int64_t kMost = 4095;
    const auto value = node.value<int64_t>();
    if (!node.is_integer() || !value || *value < 0 || *value > kMost)
      fail(node, fmt::format("'{}' must be a number from 0 to {}", escape(key.str()), kMost));
    return static_cast<uint32_t>(*value);
  }

 private:
  const std::string& origin_;
};

template <typename Reader>
auto parse_toml(std::string_view text, const std::string& origin) {
  try {
    return Reader(origin).read(toml::parse(text));
  } catch (const toml::parse_error& error) {
    throw UsageError("{}:{}: {}", origin, static_cast<uint64_t>(error.source().begin.line),
                     escape(error.description()));
  }
}

class RuleReader : public TomlReader {
 public:
  using TomlReader::TomlReader;

  RuleSet read(const toml::table& table) {
    RuleSet set;
    const auto globs = [this](const toml::table& part) { return frame_globs(part); };
    read_keys(
        table, "",
        {to("name", set.name), to("description", set.description), to("modules", set.chosen_by),
         each("phase", set.phases, [this](const toml::table& part) { return rule(part, false); }),
         each("tag", set.tags, [this](const toml::table& part) { return rule(part, true); }),
         each("class", set.names.classes,
              [this](const toml::table& part) { return class_rule(part); }),
         each("table", set.names.tables,
              [this](const toml::table& part) { return table_rule(part); }),
         each("pool", set.arenas, [this](const toml::table& part) { return arena_name(part); }),
         each("plumbing", set.names.plumbing, globs),
         each("landmark", set.names.landmarks, globs)});
    return set;
  }

 private:
  FrameGlobs frame_globs(const toml::table& table) const {
    FrameGlobs globs;
    read_keys(table, "", {to("function", globs.functions), to("module", globs.modules)});
    if (globs.functions.empty() && globs.modules.empty()) fail(table, "give function or module");
    return globs;
  }

  ClassRule class_rule(const toml::table& table) const {
    ClassRule rule;
    const auto set_versions = [&](const toml::key& key, const toml::node& value) {
      const std::string range = text(key, value);
      const size_t to = range.find(" to ");
      rule.first = parse_version(range.substr(0, to));
      rule.last = to == std::string::npos ? rule.first : parse_version(range.substr(to));
      if (rule.first.empty() || rule.last.empty())
        fail(value, "'versions' must read like '1.15 to 1.22' or '1.29'");
    };
    read_keys(table, " in a class",
              {to("name", rule.name),
               to("library", rule.libraries),
               {"versions", set_versions},
               {"slots", [&](const auto&, const auto& value) { rule.slots = slots(value); }}});
    if (rule.name.empty()) fail(table, "the class has no name");
    if (rule.libraries.empty()) fail(table, "the class has no library");
    if (rule.slots.empty()) fail(table, "the class has no slots");
    return rule;
  }

  TableRule table_rule(const toml::table& table) const {
    TableRule rule;
    // A function is no section of its own: what a table lists is told without brackets.
    Key functions = each("functions", rule.functions,
                         [this](const toml::table& part) { return table_function(part); });
    functions.is_section = false;
    read_keys(table, " in a table",
              {to("name", rule.name), to("library", rule.libraries), to("entry", rule.entry),
               to("through", rule.through), functions});
    if (rule.name.empty()) fail(table, "the table has no name");
    if (rule.libraries.empty()) fail(table, "the table has no library");
    if (rule.entry.empty()) fail(table, "the table has no entry");
    if (rule.functions.empty()) fail(table, "the table has no functions");
    return rule;
  }

  TableRule::Function table_function(const toml::table& table) const {
    TableRule::Function function;
    std::optional<uint32_t> slot;
    read_keys(table, " in a function",
              {to("slot", slot),
               to("name", function.name),
               {"since", [&](const toml::key& key, const toml::node& value) {
                  function.since = parse_version(text(key, value));
                  if (function.since.empty()) fail(value, "'since' must read like '1.16'");
                }}});
    if (!slot || function.name.empty()) fail(table, "a function has a slot and a name");
    function.slot = *slot;
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
        fail(value,
             fmt::format("no such key '{}' in a pool: there are name, library, class, type, "
                         "functions, allocate, free, destructor, size, given, address and pool",
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
    const auto set_by_call = [&](const toml::key& key, const toml::node& value) {
      if (!value.is_boolean()) fail(value, fmt::format("'{}' must be true or false", key.str()));
      rule.by_call = value.value_or(false);
    };
    read_keys(
        table, " in a rule",
        {to("name", rule.name), to("function", rule.functions), to("module", rule.modules),
         to("file", rule.files), tag ? to("phase", rule.phases) : Key{"by_call", set_by_call}});
    if (rule.name.empty()) fail(table, "the rule has no name");
    if (!rule.wants_frame() && rule.phases.empty())
      fail(table, "the rule says nothing about a frame: give function, module or file");
    return rule;
  }
};

}  // namespace

RuleSet read_rule_set(const std::string& name) {
  for (const RuleSet& set : builtin_sets()) {
    if (set.name == name) return set;
  }
  constexpr uint64_t kMostBytes = 4 << 20;
  const std::optional<std::string> text = read_regular(name, kMostBytes);
  if (!text) {
    throw UsageError("rules '{}': no such set ({}, none), and no file that can be read: {}",
                     escape(name), names_of_builtin_sets(), strerror(errno));
  }
  RuleSet set = parse_rules(*text, escape(name));
  if (set.name.empty()) set.name = name;
  return set;
}

const NameRules& builtin_name_rules() {
  static const NameRules& names = *[] {  // stays, too
    auto* const all = new NameRules;
    for (const RuleSet& set : builtin_sets()) all->append(set.names);
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

RuleSet parse_rules(std::string_view toml, const std::string& origin) {
  return parse_toml<RuleReader>(toml, origin);
}

Rule parse_rule_option(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == 0 || equals == std::string_view::npos || equals + 1 == text.size()) {
    throw UsageError(
        "'{}' is no rule: write NAME=FUNCTION or NAME=MODULE!FUNCTION, with * and ?, such as "
        "'load=llama_model_load*'",
        escape(text));
  }
  Rule rule;
  rule.name = text.substr(0, equals);
  std::string_view function = text.substr(equals + 1);
  const size_t mark = function.find('!');
  if (mark != std::string_view::npos && !function.substr(0, mark).ends_with("operator")) {
    if (mark > 0) rule.modules.emplace_back(function.substr(0, mark));
    function.remove_prefix(mark + 1);
  }
  if (!function.empty() && (function != kAny || rule.modules.empty()))
    rule.functions.emplace_back(function);
  if (!rule.wants_frame())
    throw UsageError("'{}' names neither a module nor a function", escape(text));
  return rule;
}

Rule parse_phase_option(std::string_view text) {
  if (!text.ends_with('#')) return parse_rule_option(text);
  text.remove_suffix(1);
  if (text.ends_with('=') || text.ends_with('!'))
    throw UsageError("'{}#' names no function whose calls are meant", escape(text));
  Rule rule = parse_rule_option(text);
  rule.by_call = true;
  return rule;
}

namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr uint64_t kThousandths = 1000;

class CardReader : public TomlReader {
 public:
  using TomlReader::TomlReader;

  std::vector<Card> read(const toml::table& table) const {
    std::vector<Card> cards;
    const auto read_card = [this](const toml::table& part) { return card(part); };
    read_keys(table, "", {each("card", cards, read_card)});
    return cards;
  }

 private:
  Card card(const toml::table& table) const {
    Card card;
    std::vector<double> usable, size;
    std::vector<std::string> sources, dates;
    read_keys(table, " in a card",
              {to("name", card.name), to("device", card.devices), numbers("usable_gib", usable),
               numbers("size_gib", size), to("source", sources), days("date", dates)});
    if (card.name.empty() || card.devices.empty()) fail(table, "a card needs name and device");
    if (usable.empty() && size.empty()) fail(table, "a card needs usable_gib or size_gib");
    if (sources.empty() || sources.size() != dates.size())
      fail(table, "each source needs its date");
    set_bytes(card, usable, size.empty() ? 0 : size.front());
    for (size_t i = 0; i < sources.size(); ++i)
      card.note += fmt::format("{}{}, {}", i == 0 ? "" : "; ", sources[i], dates[i]);
    return card;
  }

  static void set_bytes(Card& card, const std::vector<double>& usable, double size) {
    const auto bytes = [](double gib) { return static_cast<uint64_t>(std::llround(gib * kGiB)); };
    if (usable.empty()) {
      card.by_size = true;
      card.most_bytes = bytes(size);
      card.least_bytes = card.most_bytes / kThousandths * (kThousandths - kSizeReserve);
      return;
    }
    const auto [least, most] = std::ranges::minmax_element(usable);
    card.least_bytes = bytes(*least);
    card.most_bytes = bytes(*most);
    if (usable.size() > 1) return;
    card.least_bytes -= card.least_bytes / kThousandths * kFigureReserve;
    card.most_bytes += card.most_bytes / kThousandths * kFigureReserve;
    if (size > 0) card.most_bytes = std::min(card.most_bytes, bytes(size));
  }

  Key numbers(std::string_view name, std::vector<double>& field) const {
    return {name, [&, this](const toml::key& key, const toml::node& value) {
              field = list_of(key, value, [this](const toml::node& part) {
                const auto number = part.value<double>();
                if (!number || !(*number > 0) || *number > 1e6)
                  fail(part, "a size in GiB is needed");
                return *number;
              });
            }};
  }
  Key days(std::string_view name, std::vector<std::string>& field) const {
    return {name, [&, this](const toml::key& key, const toml::node& value) {
              field = list_of(key, value, [this](const toml::node& part) {
                const toml::date* day = part.is_date() ? &part.as_date()->get() : nullptr;
                if (day == nullptr) fail(part, "a day is needed, such as 2026-01-31");
                return fmt::format("{:04}-{:02}-{:02}", day->year, day->month, day->day);
              });
            }};
  }
};

/// A name without case, with letters and digits only, so that names typed in a hurry are equal.
std::string plain(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

}  // namespace

std::vector<Card> parse_cards(std::string_view toml, const std::string& origin) {
  std::vector<Card> cards = parse_toml<CardReader>(toml, origin);
  std::ranges::stable_sort(cards, {}, &Card::most_bytes);
  return cards;
}

const std::vector<Card>& builtin_cards() {
  static const std::vector<Card> cards = parse_cards(builtin_cards_text(), "rules/cards.toml");
  return cards;
}

const Card& find_card(const std::string& name) {
  std::vector<std::string> names;
  for (const Card& card : builtin_cards()) {
    if (is_card(card, name)) return card;
    std::istringstream each(card.name);  // "A10, A10G"
    for (std::string one; std::getline(each, one, ',');) {
      if (plain(one) == plain(name)) return card;
    }
    names.push_back(card.name);
  }
  const std::string meant = did_you_mean(name, names);
  throw UsageError("no card '{}' is known{}{} Of any other, say what it has: --capacity 24GiB",
                   escape(name), meant, meant.ends_with('?') ? "" : ".");
}

}  // namespace gpupeak::collector
