#include "collector/symbols/name_rules.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "collector/symbols/loaded_image.h"
#include "collector/text/function_names.h"
#include "collector/text/name_match.h"

namespace gpupeak::collector {
namespace {

bool any_matches(const std::vector<FrameGlobs>& frames, std::string_view module,
                 std::string_view function) {
  const auto any = [&](std::string_view name) {
    return std::ranges::any_of(
        frames, [&](const FrameGlobs& globs) { return globs.matches(module, name); });
  };
  const std::string_view name = without_signature(function);
  if (any(name)) return true;
  // `<T as Trait>::f` is in the crate of T or of Trait, so it counts as a part of both.
  const std::optional<ImplName> impl = impl_name(name);
  return impl && any(type_path(impl->type)) && (impl->trait.empty() || any(type_path(impl->trait)));
}

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

int compare(const Version& version, const Version& bound) {
  for (size_t i = 0; i < bound.size(); ++i) {
    const uint32_t part = i < version.size() ? version[i] : 0;
    if (part != bound[i]) return part < bound[i] ? -1 : 1;
  }
  return 0;
}

bool FrameGlobs::matches(std::string_view module, std::string_view function) const {
  return (modules.empty() || any_glob_matches(modules, module)) &&
         (functions.empty() || (!function.empty() && any_glob_matches(functions, function)));
}

bool NameRules::is_plumbing(std::string_view module, std::string_view function) const {
  return any_matches(plumbing, module, function);
}

bool NameRules::is_plumbing_file(std::string_view file) const {
  return std::ranges::any_of(plumbing, [file](const FrameGlobs& globs) {
    return globs.functions.empty() && any_glob_matches(globs.modules, file);
  });
}

bool NameRules::is_landmark(std::string_view module, std::string_view function) const {
  return any_matches(landmarks, module, function);
}

void NameRules::append(const NameRules& more) {
  classes.insert(classes.end(), more.classes.begin(), more.classes.end());
  tables.insert(tables.end(), more.tables.begin(), more.tables.end());
  plumbing.insert(plumbing.end(), more.plumbing.begin(), more.plumbing.end());
  landmarks.insert(landmarks.end(), more.landmarks.begin(), more.landmarks.end());
}

Version parse_version(std::string_view text) {
  Version version;
  size_t at = text.find_first_of("0123456789");
  while (at < text.size()) {
    uint32_t part = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), part);
    if (error != std::errc()) break;
    version.push_back(part);
    at = static_cast<size_t>(end - text.data());
    if (at >= text.size() || text[at] != '.') break;
    ++at;
  }
  return version;
}

bool ClassRule::applies_to(std::string_view library, const Version& version) const {
  if (!any_glob_matches(libraries, library)) return false;
  if (first.empty() && last.empty()) return true;
  return !version.empty() && compare(version, first) >= 0 && compare(version, last) <= 0;
}

bool TableRule::applies_to(std::string_view library) const {
  return any_glob_matches(libraries, library);
}

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
  separate(functions);
  return functions;
}

}  // namespace gpupeak::collector
