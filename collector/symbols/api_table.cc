#include "collector/symbols/api_table.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "collector/symbols/loaded_image.h"

namespace gpupeak::collector {
namespace {

class TableReader {
 public:
  explicit TableReader(const LoadedImage& image) : image_(image) {}

  /// The only table of at least `least` functions whose address this function takes; nullopt: there
  /// is none, or several.
  std::optional<uint64_t> table_of(uint64_t function, uint32_t least) const {
    const auto range = image_.function_from(function);
    if (!range) return std::nullopt;
    std::set<uint64_t> tables;
    for (const uint64_t at : image_.taken_in(*range)) {
      if (has_functions(at, least)) tables.insert(at);
    }
    return tables.size() == 1 ? std::optional(*tables.begin()) : std::nullopt;
  }

  std::optional<uint64_t> function_at(uint64_t table, uint32_t slot) const {
    const uint64_t at = table + slot * kWord;
    const RelocatedWord* word = image_.word_at(at);
    const bool here = word != nullptr && word->symbol == RelocatedWord::kNoSymbol;
    if (!here || !image_.is_constant(at) || !image_.is_code(word->value)) return std::nullopt;
    return word->value;
  }

 private:
  bool has_functions(uint64_t table, uint32_t count) const {
    for (uint32_t slot = 0; slot < count; ++slot) {
      if (!function_at(table, slot)) return false;
    }
    return true;
  }

  const LoadedImage& image_;
};

}  // namespace

std::vector<ApiFunction> api_functions(Elf* elf, const TableRule& rule, uint64_t entry) {
  const LoadedImage image(elf);
  const TableReader reader(image);
  const Version version = parse_version(image.symbol_version());
  std::map<uint64_t, std::string> by_slot;
  for (const TableRule::Function& function : rule.functions) {
    const bool has_it =
        function.since.empty() || (!version.empty() && compare(version, function.since) >= 0);
    if (has_it) by_slot[function.slot] = function.name;
  }
  if (by_slot.empty()) return {};
  const auto least = static_cast<uint32_t>(by_slot.rbegin()->first + 1);
  if (rule.through) {
    const auto outer = reader.table_of(entry, *rule.through + 1);
    const auto inner = outer ? reader.function_at(*outer, *rule.through) : std::nullopt;
    if (!inner) return {};
    entry = *inner;
  }
  const auto table = reader.table_of(entry, least);
  if (!table) return {};

  // By function: one that the linker folded is in several slots.
  std::map<uint64_t, std::vector<uint32_t>> slots;
  for (uint32_t slot = 0; slot < least; ++slot)
    slots[*reader.function_at(*table, slot)].push_back(slot);
  std::vector<ApiFunction> functions;
  for (const auto& [start, in] : slots) {
    const auto name = by_slot.find(in.front());
    const auto range = image.function_from(start);
    if (in.size() > 1 || name == by_slot.end() || !range) continue;
    functions.push_back({range->begin, range->end, rule.name + "::" + name->second});
  }
  for (size_t i = 1; i < functions.size(); ++i) {  // damaged unwinding tables may overlap
    functions[i - 1].end = std::min(functions[i - 1].end, functions[i].begin);
  }
  return functions;
}

}  // namespace gpupeak::collector
