#include "collector/symbols/rtti_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "collector/symbols/loaded_image.h"
#include "collector/symbols/rtti_reader.h"
#include "collector/text/rust_demangle.h"
#include "collector/text/work.h"

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

/// The file, and the addresses to which its constant words lead.
struct LibraryRtti::Image {
  explicit Image(Elf* elf) : loaded(elf) {
    for (const RelocatedWord& word : loaded.words()) {
      if (word.symbol == RelocatedWord::kNoSymbol && loaded.is_constant(word.at))
        targets.push_back(word.value);
    }
    std::ranges::sort(targets);
  }
  bool leads_to_function_of(uint64_t address) const {
    const std::vector<uint64_t>& starts = loaded.function_starts();
    const auto next = std::upper_bound(starts.begin(), starts.end(), address);
    return next != starts.begin() && std::ranges::binary_search(targets, *std::prev(next));
  }
  RttiReader& reader() {
    if (!reader_) reader_.emplace(loaded);
    return *reader_;
  }

  LoadedImage loaded;
  std::vector<uint64_t> targets;  ///< sorted

 private:
  std::optional<RttiReader> reader_;
};

LibraryRtti::LibraryRtti(Elf* elf) : elf_(elf) {}
LibraryRtti::~LibraryRtti() = default;

LibraryRtti::Image& LibraryRtti::image() {
  if (!image_) image_ = std::make_unique<Image>(elf_);
  return *image_;
}

/// Asks what costs least first: most functions are in no table at all, and most libraries for the
/// GPU have tables of functions that are no vtables.
bool LibraryRtti::vtable_may_lead_to(uint64_t address) {
  if (!at_most_) {
    if (!image().leads_to_function_of(address)) return false;
    at_most_ = image().reader().functions_at_most();
  }
  return at_most_->function_at(address) != nullptr;
}

const RttiTable* LibraryRtti::table_for(uint64_t address) {
  if (!table_) {
    if (!vtable_may_lead_to(address)) return nullptr;
    ++work().rtti_scans;
    table_ = image().reader().table();
    image_.reset();
  }
  return &*table_;
}

}  // namespace gpupeak::collector
