#include "hooks/arena_rule_book.h"

#include <initializer_list>
#include <string_view>

#include "base/environment.h"
#include "base/memory.h"
#include "base/proc_file.h"

namespace gpupeak::preload {
namespace {

constexpr bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

size_t place_of_colons(std::string_view text) {
  for (size_t at = 0; at + 1 < text.size(); ++at) {
    if (text[at] == ':' && text[at + 1] == ':') return at;
  }
  return std::string_view::npos;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string_view next_line(std::string_view file, size_t& at) {
  const std::string_view rest = tail(file, at);
  const size_t end = position(rest, '\n');
  at += end == std::string_view::npos ? rest.size() : end + 1;
  return head(rest, end);
}

uint64_t line_number(std::string_view file, size_t at) {
  uint64_t number = 1;
  for (char c : head(file, at)) number += c == '\n' ? 1 : 0;
  return number;
}

/// Whether a line may end so: behind a value there may only be a comment.
bool ends(std::string_view rest) {
  rest = trimmed(rest);
  return rest.empty() || rest.front() == '#';
}

bool read_number(std::string_view value, uint32_t most, uint32_t& number) {
  size_t digits = 0;
  uint32_t read = 0;
  for (; digits < value.size() && value[digits] >= '0' && value[digits] <= '9'; ++digits) {
    read = read * 10 + static_cast<uint32_t>(value[digits] - '0');
    if (read > most) return false;
  }
  number = read;
  return digits > 0 && ends(tail(value, digits));
}

template <size_t kCapacity>
bool read_text(std::string_view value, Text<kCapacity>& text) {
  if (value.size() < 2 || (value.front() != '"' && value.front() != '\'')) return false;
  const std::string_view rest = tail(value, 1);
  const size_t end = position(rest, value.front());
  if (end == 0 || end == std::string_view::npos || end >= kCapacity || !ends(tail(rest, end + 1)))
    return false;
  const std::string_view found = head(rest, end);
  for (char c : found) {
    if (c == '\\' || static_cast<unsigned char>(c) < ' ') return false;
  }
  text.clear();
  text.add(found);
  return true;
}

/// A slot's number or an exported function's name.
template <size_t kCapacity>
bool read_function(std::string_view value, uint32_t& slot, Text<kCapacity>& name) {
  constexpr uint32_t kMostSlots = 4095;
  return read_number(value, kMostSlots, slot) || read_text(value, name);
}

/// "ns::Class" as type_info::name() writes it: "N2ns5ClassE".
bool mangle(std::string_view name, Text<512>& type) {
  const bool nested = place_of_colons(name) != std::string_view::npos;
  type.clear();
  if (nested) type.add("N");
  while (!name.empty()) {
    const size_t end = place_of_colons(name);
    const std::string_view part = head(name, end);
    for (char c : part) {
      const bool word =
          (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
      if (!word) return false;
    }
    if (part.empty()) return false;
    type.add(uint64_t{part.size()}).add(part);
    name = end == std::string_view::npos ? std::string_view() : tail(name, end + 2);
  }
  if (nested) type.add("E");
  return true;
}

/// Reads one key into the rule. nullptr: it was understood; else what was expected.
const char* read_key(std::string_view key, std::string_view value, ArenaRule& rule) {
  constexpr uint32_t kLastArgument = 5, kMostFunctions = 4096;
  if (key == "name") return read_text(value, rule.name) ? nullptr : "a name of 47 characters";
  if (key == "library") return read_text(value, rule.library) ? nullptr : "a text";
  if (key == "type") return read_text(value, rule.type) ? nullptr : "a text";
  if (key == "class") {
    Text<512> name;
    return read_text(value, name) && mangle(name.view(), rule.type)
               ? nullptr
               : "a class's name such as \"ns::Class\"; of a template give 'type'";
  }
  if (key == "functions")
    return read_number(value, kMostFunctions, rule.functions) ? nullptr : "a number";
  if (key == "allocate")
    return read_function(value, rule.allocate, rule.allocate_name) ? nullptr : "a slot or a name";
  if (key == "free")
    return read_function(value, rule.free, rule.free_name) ? nullptr : "a slot or a name";
  if (key == "destructor")
    return read_number(value, kMostFunctions, rule.destructor) ? nullptr : "a slot";
  struct Argument {
    std::string_view key;
    uint32_t& number;
  };
  for (const Argument& argument : {Argument{"size", rule.size}, Argument{"address", rule.address},
                                   Argument{"given", rule.given}, Argument{"pool", rule.arena}}) {
    if (argument.key == key)
      return read_number(value, kLastArgument, argument.number) ? nullptr : "an argument, 0 to 5";
  }
  return "a key of [[pool]]";
}

/// What the rule lacks; nullptr: nothing.
const char* lacks(const ArenaRule& rule) {
  if (rule.name.view().empty()) return "has no name";
  if (rule.library.view().empty()) return "has no library";
  if (rule.size == ArenaRule::kNone) return "has no size";
  if (rule.address == ArenaRule::kNone) return "has no address";
  const bool exported = !rule.allocate_name.view().empty() && !rule.free_name.view().empty();
  if (rule.type.view().empty())
    return exported ? nullptr : "has no class, nor names in allocate and free";
  if (rule.allocate == ArenaRule::kNone || rule.free == ArenaRule::kNone)
    return "has a class: allocate and free must be slots";
  if (rule.functions == ArenaRule::kNone)
    return "has no functions: how many virtual ones the class has";
  for (const uint32_t slot : {rule.allocate, rule.free}) {
    if (slot >= rule.functions) return "has a slot beyond its functions";
  }
  if (rule.destructor != ArenaRule::kNone && rule.destructor + 1 >= rule.functions)
    return "has a destructor beyond its functions";
  return nullptr;
}

}  // namespace

bool next_arena_rule(std::string_view file, size_t& at, ArenaRule& rule, Text<256>& problem) {
  while (at < file.size() && !trimmed(next_line(file, at)).starts_with("[[pool]]")) {
  }
  if (at >= file.size()) return false;
  rule = ArenaRule{};
  const size_t begins = at;
  size_t line_at = at;
  while (at < file.size()) {
    line_at = at;
    const std::string_view line = trimmed(next_line(file, at));
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '[') {
      at = line_at;  // the next part begins
      break;
    }
    const size_t sign = position(line, '=');
    const std::string_view key = trimmed(head(line, sign));
    const char* const wanted = sign == std::string_view::npos
                                   ? "KEY = VALUE"
                                   : read_key(key, trimmed(tail(line, sign + 1)), rule);
    if (wanted == nullptr) continue;
    problem.add("line ").add(line_number(file, line_at)).add(": '").add(head(key, 32));
    problem.add("' is not ").add(wanted);
    return false;
  }
  const char* const lack = lacks(rule);
  if (lack != nullptr)
    problem.add("line ").add(line_number(file, begins) - 1).add(": the pool ").add(lack);
  return lack == nullptr;
}

bool fits_glob(std::string_view glob, std::string_view text) {
  // `star`: place of the last star in the glob. `taken`: up to where in the text it reaches so far.
  size_t g = 0, t = 0, star = std::string_view::npos, taken = 0;
  while (t < text.size()) {
    if (g < glob.size() && glob[g] == '*') {
      star = g++;
      taken = t;
    } else if (g < glob.size() && (glob[g] == '?' || glob[g] == text[t])) {
      ++g;
      ++t;
    } else if (star != std::string_view::npos) {
      g = star + 1;
      t = ++taken;
    } else {
      return false;
    }
  }
  while (g < glob.size() && glob[g] == '*') ++g;
  return g == glob.size();
}

}  // namespace gpupeak::preload

// The built-in rule files (preload/CMakeLists.txt). The command has them, too.
__asm__(
    ".pushsection .rodata\n"
    "gpupeak_arena_rules_begin:\n"
    ".incbin \"" GPUPEAK_POOL_RULES_FILE
    "\"\n"
    "gpupeak_arena_rules_end:\n"
    ".popsection\n");
extern "C" __attribute__((visibility("hidden"))) const char gpupeak_arena_rules_begin[];
extern "C" __attribute__((visibility("hidden"))) const char gpupeak_arena_rules_end[];

namespace gpupeak::preload {

constinit ArenaRuleState g_arena_rules[kMostArenaRules];
constinit size_t g_arena_rule_count = 0;

namespace {

ArenaClass class_of(ArenaRuleState& rule) {
  const ArenaRule& says = rule.says;
  const auto slot = [](uint32_t number) { return number == ArenaRule::kNone ? kNoSlot : number; };
  const auto argument = [](uint32_t number) {
    return number == ArenaRule::kNone ? kNoArgument : static_cast<uint8_t>(number);
  };
  const size_t destructor = slot(says.destructor);
  return {.maker = &rule.maker,
          .slot = {slot(says.allocate), kNoSlot, kNoSlot, slot(says.free), destructor,
                   destructor == kNoSlot ? kNoSlot : destructor + 1},
          .size_at = argument(says.size),
          .address_at = argument(says.address),
          .given_at = argument(says.given),
          .object_at = rule.exported() ? argument(says.arena) : uint8_t{0}};
}

void read_rules(std::string_view text, std::string_view origin, bool built_in) {
  size_t at = 0;
  while (at < text.size() && g_arena_rule_count < kMostArenaRules) {
    ArenaRuleState& rule = g_arena_rules[g_arena_rule_count];
    Text<256> problem;
    if (next_arena_rule(text, at, rule.says, problem)) {
      rule.maker.shown = rule.says.name.c_str();
      rule.maker.fact = "pools.rule";
      rule.of = class_of(rule);
      rule.built_in = built_in;
      ++g_arena_rule_count;
    } else if (!problem.view().empty()) {
      Text<512> whole;
      arenas_off(whole.add(origin).add(": ").add(problem.view()).view());
    }
  }
}

}  // namespace

void read_arena_rules() {
  const std::string_view path = variable("GPUPEAK_POOL_RULES");
  if (!path.empty()) {
    constexpr size_t kMostBytes = 256 << 10;
    Path file;
    file.add(path);
    char* const text = static_cast<char*>(map_pages(kMostBytes));
    const size_t bytes = text == nullptr ? 0 : read_file(file.c_str(), text, kMostBytes);
    if (bytes == 0) {
      Text<512> problem;
      arenas_off(problem.add("GPUPEAK_POOL_RULES: ").add(path).add(" cannot be read").view());
    }
    read_rules({text, bytes}, path, false);
    if (text != nullptr) unmap_pages(text, kMostBytes);
  }
  read_rules({gpupeak_arena_rules_begin,
              static_cast<size_t>(gpupeak_arena_rules_end - gpupeak_arena_rules_begin)},
             "built-in rules", true);
}

}  // namespace gpupeak::preload
