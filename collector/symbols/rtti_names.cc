#include "collector/symbols/rtti_names.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "collector/text/rust_demangle.h"

namespace gpupeak::collector {
namespace {

constexpr int kMaxSteps = 256;  // from base to base; a damaged table may have a circle
constexpr std::string_view kDestructor = "~";

/// "a::B<int>" → "B".
std::string_view last_name(std::string_view name) {
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < name.size(); ++i) {
    if (name[i] == '<' || name[i] == '(' || name[i] == '{') ++depth;
    if (name[i] == '>' || name[i] == ')' || name[i] == '}') --depth;
    if (depth == 0 && name[i] == ':') begin = i + 1;
  }
  const std::string_view last = name.substr(begin);
  return last.substr(0, last.find('<'));
}

}  // namespace

RttiNames::RttiNames(const RttiTable& table, std::string_view library, std::string_view version,
                     const NameRules* rules)
    : table_(table) {
  if (rules == nullptr) return;
  const Version numbers = parse_version(version.empty() ? table.version : version);
  for (const ClassRule& rule : rules->classes) {
    if (rule.applies_to(library, numbers)) rules_.try_emplace(rule.name, &rule);
  }
}

const std::string& RttiNames::class_name(uint32_t index) const {
  const auto [entry, added] = class_names_.try_emplace(index);
  if (!added) return entry->second;
  const std::string& mangled = table_.classes[index].name;
  entry->second = cpp_demangle(mangled).value_or(mangled);
  return entry->second;
}

/// The name that a rule gives the slot, in the class itself or in a base whose vtable its own
/// begins with. If it is not certain which base at the front has a vtable, the one that a rule
/// names has it.
const std::string* RttiNames::slot_name(uint32_t layout, uint32_t slot, int* steps) const {
  if (layout == RttiTable::kNone || rules_.empty() || --*steps < 0) return nullptr;
  const auto rule = rules_.find(class_name(layout));
  if (rule != rules_.end()) {
    const std::vector<std::string>& slots = rule->second->slots;
    if (slot < slots.size()) return slots[slot].empty() ? nullptr : &slots[slot];
  }
  const RttiTable::Class& described = table_.classes[layout];
  if (described.primary != RttiTable::kNone) {
    return slot_name(described.primary, slot, steps);
  }
  const std::string* found = nullptr;
  for (const uint32_t front : described.fronts) {
    const std::string* name = slot_name(front, slot, steps);
    if (name != nullptr && found != nullptr) return nullptr;
    if (name != nullptr) found = name;
  }
  return found;
}

std::string RttiNames::name_of(const RttiTable::Function& function) const {
  const bool one = function.class_count == 1;
  const bool owned = one && function.owner != RttiTable::kNone;
  const uint32_t of = owned ? function.owner : function.layout;
  if (of == RttiTable::kNone) return "";
  const std::string& owner = class_name(of);
  int steps = kMaxSteps;
  const std::string* slot = slot_name(function.layout, function.slot, &steps);
  std::string name = fmt::format("[virtual {}]", function.slot);
  // A virtual base's, whose place varies.
  if (function.layout == RttiTable::kNone) name = "[virtual]";
  if (slot != nullptr) name = *slot == kDestructor ? fmt::format("~{}", last_name(owner)) : *slot;
  const std::string some = fmt::format("[one of {} classes]", function.class_count);
  return fmt::format("{}::{}{}", owner, name, owned ? "" : some);
}

}  // namespace gpupeak::collector
