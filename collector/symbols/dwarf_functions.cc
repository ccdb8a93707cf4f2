#include "collector/symbols/dwarf_functions.h"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>

namespace gpupeak::collector {
namespace {

constexpr int kMaxDieDepth = 256;

struct Range {
  uint64_t begin, end;
  bool contains(uint64_t address) const { return address >= begin && address < end; }
};

std::vector<Range> ranges_of(Dwarf_Die* die) {
  std::vector<Range> ranges;
  Dwarf_Addr base = 0;
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &begin, &end)) > 0;) {
    if (begin < end) ranges.push_back({begin, end});
  }
  return ranges;
}

/// The mangled name, if there is one. Other linkage names are a library's private aliases.
const char* mangled_name_of(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned code : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(die, code, &attribute) == nullptr) continue;
    const char* name = dwarf_formstring(&attribute);
    if (name != nullptr && name[0] == '_' && (name[1] == 'Z' || name[1] == 'R')) return name;
  }
  return nullptr;
}

/// Where the function stands in the source: what an inlined call, or a body, refers to.
Dwarf_Die declaration_of(Dwarf_Die die) {
  constexpr int kMaxHops = 8;
  Dwarf_Attribute attribute;
  for (int hop = 0; hop < kMaxHops; ++hop) {
    Dwarf_Die next;
    if (dwarf_attr(&die, DW_AT_abstract_origin, &attribute) == nullptr &&
        dwarf_attr(&die, DW_AT_specification, &attribute) == nullptr) {
      break;
    }
    if (dwarf_formref_die(&attribute, &next) == nullptr) break;
    die = next;
  }
  return die;
}

/// The names of the namespaces, classes and functions around a declaration, each with "::".
std::string scope_of(Dwarf_Die* declaration) {
  Dwarf_Die* scopes = nullptr;
  const int count = dwarf_getscopes_die(declaration, &scopes);
  std::string scope;
  for (int i = count - 1; i > 0; --i) {  // the innermost is the function itself
    const char* name = dwarf_diename(&scopes[i]);
    switch (dwarf_tag(&scopes[i])) {
      case DW_TAG_namespace:
        scope += name != nullptr ? name : "(anonymous namespace)";
        break;
      case DW_TAG_class_type:
      case DW_TAG_structure_type:
      case DW_TAG_union_type:
        scope += name != nullptr ? name : "{unnamed}";
        break;
      case DW_TAG_subprogram:
        scope += name != nullptr ? name : "{unnamed}";
        break;
      default:
        continue;
    }
    scope += "::";
  }
  free(scopes);
  return scope;
}

uint64_t number_of(Dwarf_Die* die, unsigned code) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(die, code, &attribute) == nullptr) return 0;
  return dwarf_formudata(&attribute, &value) == 0 ? value : 0;
}

}  // namespace

/// The functions of one compilation unit, in the order of the tree: an inlined call follows the
/// function that it lies in.
struct DwarfFunctions::Unit {
  struct Function {
    Dwarf_Die die;
    std::vector<Range> ranges;
    uint32_t end = 0;  ///< index after the last one inside this one
    bool inlined = false;
    bool contains(uint64_t address) const {
      return std::any_of(ranges.begin(), ranges.end(),
                         [&](const Range& range) { return range.contains(address); });
    }
  };
  struct Start {
    uint64_t begin, end;
    uint32_t function;
  };

  Dwarf_Die die;
  bool indexed = false;
  std::vector<Function> functions;
  std::vector<Start> starts;  // of those not inlined, sorted

  void index() {
    indexed = true;
    walk(&die, 0);
    for (uint32_t i = 0; i < functions.size(); ++i) {
      if (functions[i].inlined) continue;
      for (const Range& range : functions[i].ranges) starts.push_back({range.begin, range.end, i});
    }
    std::sort(starts.begin(), starts.end(),
              [](const Start& a, const Start& b) { return a.begin < b.begin; });
  }

  void walk(Dwarf_Die* parent, int depth) {
    Dwarf_Die child;
    if (depth == kMaxDieDepth || dwarf_child(parent, &child) != 0) return;
    do {
      switch (dwarf_tag(&child)) {
        case DW_TAG_subprogram:
        case DW_TAG_inlined_subroutine:
          add_function(child, depth);
          break;
        case DW_TAG_lexical_block:
        case DW_TAG_namespace:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_module:
          walk(&child, depth + 1);
          break;
        default:
          break;
      }
    } while (dwarf_siblingof(&child, &child) == 0);
  }

  void add_function(Dwarf_Die& function_die, int depth) {
    std::vector<Range> ranges = ranges_of(&function_die);
    if (ranges.empty()) return;  // a declaration, or the abstract form of an inlined function
    const size_t index = functions.size();
    functions.push_back({function_die, std::move(ranges), 0,
                         dwarf_tag(&function_die) == DW_TAG_inlined_subroutine});
    Dwarf_Die inside = function_die;
    walk(&inside, depth + 1);
    functions[index].end = static_cast<uint32_t>(functions.size());
  }

  /// Indices of the functions around `address`, outermost first.
  std::vector<uint32_t> chain_at(uint64_t address) const {
    auto start = std::upper_bound(starts.begin(), starts.end(), address,
                                  [](uint64_t value, const Start& s) { return value < s.begin; });
    std::vector<uint32_t> chain;
    if (start == starts.begin()) return chain;
    --start;
    if (address >= start->end) return chain;
    chain.push_back(start->function);
    const uint32_t end = functions[start->function].end;
    for (uint32_t i = start->function + 1; i < end;) {
      const bool here = functions[i].inlined && functions[i].contains(address);
      if (here) chain.push_back(i);
      i = here ? i + 1 : functions[i].end;
    }
    return chain;
  }
};

DwarfFunctions::DwarfFunctions(Dwarf* dwarf) {
  Dwarf_CU* unit = nullptr;
  Dwarf_Die die;
  while (dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
    if (dwarf_tag(&die) == DW_TAG_compile_unit) add_unit(&die);
  }
  std::sort(unit_ranges_.begin(), unit_ranges_.end(),
            [](const UnitRange& a, const UnitRange& b) { return a.begin < b.begin; });
}

DwarfFunctions::~DwarfFunctions() = default;

void DwarfFunctions::add_unit(Dwarf_Die* die) {
  const std::vector<Range> ranges = ranges_of(die);
  if (ranges.empty()) return;
  const auto index = static_cast<uint32_t>(units_.size());
  units_.push_back(std::make_unique<Unit>());
  units_.back()->die = *die;
  for (const Range& range : ranges) unit_ranges_.push_back({range.begin, range.end, index});
}

DwarfFunctions::Unit* DwarfFunctions::unit_at(uint64_t address) {
  auto range = std::upper_bound(unit_ranges_.begin(), unit_ranges_.end(), address,
                                [](uint64_t value, const UnitRange& r) { return value < r.begin; });
  if (range == unit_ranges_.begin()) return nullptr;
  --range;
  if (address >= range->end) return nullptr;
  Unit* unit = units_[range->unit].get();
  if (!unit->indexed) unit->index();
  return unit;
}

/// Functions local to their file have no mangled name: theirs is put together from what is around
/// them.
std::string DwarfFunctions::name_of(Dwarf_Die* die) {
  if (const char* mangled = mangled_name_of(die)) return mangled;
  const char* name = dwarf_diename(die);
  if (name == nullptr) return "";
  Dwarf_Die declaration = declaration_of(*die);
  const auto [entry, added] = scopes_.try_emplace(dwarf_dieoffset(&declaration));
  if (added) entry->second = scope_of(&declaration);
  return entry->second + name;
}

std::vector<DwarfFrame> DwarfFunctions::frames_at(uint64_t address) {
  std::vector<DwarfFrame> frames;
  Unit* unit = unit_at(address);
  if (unit == nullptr) return frames;
  std::string file;
  int line = 0;
  if (Dwarf_Line* source = dwarf_getsrc_die(&unit->die, address)) {
    const char* name = dwarf_linesrc(source, nullptr, nullptr);
    if (name != nullptr) file = name;
    dwarf_lineno(source, &line);
  }
  Dwarf_Files* files = nullptr;
  size_t file_count = 0;
  if (dwarf_getsrcfiles(&unit->die, &files, &file_count) != 0) file_count = 0;
  const std::vector<uint32_t> chain = unit->chain_at(address);
  for (size_t i = chain.size(); i-- > 0;) {
    Unit::Function& function = unit->functions[chain[i]];
    frames.push_back({name_of(&function.die), file, line, NameSource::kDwarf});
    const uint64_t call_file = number_of(&function.die, DW_AT_call_file);
    const char* name =
        call_file < file_count ? dwarf_filesrc(files, call_file, nullptr, nullptr) : nullptr;
    file = name != nullptr && call_file != 0 ? name : "";
    line = static_cast<int>(number_of(&function.die, DW_AT_call_line));
  }
  return frames;
}

}  // namespace gpupeak::collector
