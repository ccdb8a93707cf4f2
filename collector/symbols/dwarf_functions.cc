#include "collector/symbols/dwarf_functions.h"

#include <dwarf.h>
#include <elf.h>
#include <gelf.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>

#include "collector/symbols/debug_files.h"
#include "collector/symbols/loaded_image.h"

namespace gpupeak::collector {
namespace {

constexpr int kMaxDieDepth = 256;

struct Range {
  uint64_t begin, end;
  bool contains(uint64_t address) const { return address >= begin && address < end; }
};

std::vector<Range> ranges_of(Dwarf_Die* die, DwarfPatience& patience) {
  std::vector<Range> ranges;
  Dwarf_Addr base = 0;
  Dwarf_Addr begin = 0;
  Dwarf_Addr end = 0;
  for (ptrdiff_t at = 0; (at = dwarf_ranges(die, at, &base, &begin, &end)) > 0;) {
    if (!patience.take_range()) return {};
    if (begin < end) ranges.push_back({begin, end});
  }
  return ranges;
}

/// The mangled name, or nullptr. Linkage names that are not mangled are a library's private
/// aliases.
const char* mangled_name_of(Dwarf_Die* die) {
  Dwarf_Attribute attribute;
  for (const unsigned code : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (dwarf_attr_integrate(die, code, &attribute) == nullptr) continue;
    const char* name = dwarf_formstring(&attribute);
    if (name == nullptr || name[0] != '_' || (name[1] != 'Z' && name[1] != 'R')) continue;
    if (strlen(name) <= kLongestMangled) return name;
  }
  return nullptr;
}

/// The declaration of a function in the source, to which an inlined call or a body refers.
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

std::optional<uint64_t> number_of(Dwarf_Die* die, unsigned code) {
  Dwarf_Attribute attribute;
  Dwarf_Word value = 0;
  if (dwarf_attr(die, code, &attribute) == nullptr) return std::nullopt;
  return dwarf_formudata(&attribute, &value) == 0 ? std::optional<uint64_t>(value) : std::nullopt;
}

uint64_t file_bytes(Dwarf* dwarf) {
  size_t bytes = 0;
  Elf* elf = dwarf_getelf(dwarf);
  return elf != nullptr && elf_rawfile(elf, &bytes) != nullptr ? bytes : 0;
}

/// Whether the unit's content is in a .dwo file of a kind for which libdw has no unit type.
bool is_elsewhere(Dwarf_Die* unit) {
  return dwarf_hasattr(unit, DW_AT_dwo_name) != 0 || dwarf_hasattr(unit, DW_AT_GNU_dwo_name) != 0;
}

std::string text_of(Dwarf_Die* unit, unsigned code) {
  Dwarf_Attribute attribute;
  if (dwarf_attr(unit, code, &attribute) == nullptr) return "";
  const char* text = dwarf_formstring(&attribute);
  return text != nullptr ? text : "";
}

/// The name of the .dwo file that a skeleton names.
std::string split_name(Dwarf_Die* skeleton) {
  const std::string name = text_of(skeleton, DW_AT_dwo_name);
  return name.empty() ? text_of(skeleton, DW_AT_GNU_dwo_name) : name;
}

/// Whether libdw may open the path: nothing is there, or an ELF file of bounded size. libdw would
/// open anything with that name, and would wait for a pipe.
bool may_be_opened(const std::string& path) {
  struct stat status {};
  return lstat(path.c_str(), &status) != 0 || static_cast<bool>(open_elf(path, status));
}

/// Sets `split` to the unit of the .dwo file that a skeleton names. libdw looks for it beside the
/// module and in the folder of the compilation.
bool split_of(Dwarf_Die* skeleton, const std::vector<std::string>& folders, Dwarf_Die& split) {
  const std::string name = split_name(skeleton);
  const std::string compiled_in = text_of(skeleton, DW_AT_comp_dir);
  for (const std::string& folder : folders) {
    const std::filesystem::path beside = std::filesystem::path(folder) / name;
    const std::filesystem::path there = std::filesystem::path(folder) / compiled_in / name;
    if (!may_be_opened(beside) || !may_be_opened(there)) return false;
  }
  split = {};
  return !name.empty() &&
         dwarf_cu_info(skeleton->cu, nullptr, nullptr, nullptr, &split, nullptr, nullptr,
                       nullptr) == 0 &&
         split.addr != nullptr;
}

}  // namespace

/// The functions of one compilation unit, in the order of the tree: an inlined call follows the
/// function in which it lies.
struct DwarfFunctions::Unit {
  struct Function {
    Dwarf_Die die;
    std::vector<Range> ranges;
    uint32_t end = 0;  ///< index behind the last one inside this one
    bool inlined = false;
    bool contains(uint64_t address) const {
      return std::ranges::any_of(ranges,
                                 [&](const Range& range) { return range.contains(address); });
    }
  };
  struct Start {
    uint64_t begin, end;
    uint32_t function;
  };

  Unit(const Dwarf_Die& of, const Dwarf_Die& contents, int dwarf_version, DwarfPatience& shared)
      : die(of), content(contents), version(dwarf_version), patience(shared) {}

  Dwarf_Die die;      ///< has the addresses and lines
  Dwarf_Die content;  ///< has the functions; in a split unit another DIE
  int version;
  DwarfPatience& patience;
  bool indexed = false;
  std::vector<Function> functions;
  std::vector<Start> starts;  // of functions that are not inlined, sorted

  void index() {
    indexed = true;
    walk(&content, 0);
    for (uint32_t i = 0; i < functions.size(); ++i) {
      if (functions[i].inlined) continue;
      for (const Range& range : functions[i].ranges) starts.push_back({range.begin, range.end, i});
    }
    std::ranges::sort(starts, {}, &Start::begin);
  }

  void walk(Dwarf_Die* parent, int depth) {
    Dwarf_Die child;
    if (depth == kMaxDieDepth || dwarf_child(parent, &child) != 0) return;
    do {
      if (!patience.take_entry()) return;
      switch (dwarf_tag(&child)) {
        case DW_TAG_subprogram:
        case DW_TAG_inlined_subroutine:
          add_function(child, depth);
          break;
        case DW_TAG_lexical_block:
          add_haskell_block(child);
          [[fallthrough]];
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

  /// The blocks of GHC's functions lie behind the function's own range, and not in it.
  void add_haskell_block(Dwarf_Die& block) {
    constexpr unsigned kHaskell = 0x18;  // DW_LANG_Haskell
    if (functions.empty() || number_of(&die, DW_AT_language) != kHaskell) return;
    for (const Range& range : ranges_of(&block, patience)) functions.back().ranges.push_back(range);
  }

  void add_function(Dwarf_Die& function_die, int depth) {
    std::vector<Range> ranges = ranges_of(&function_die, patience);
    if (ranges.empty()) return;  // a declaration, or the abstract form of an inlined function
    const size_t index = functions.size();
    functions.push_back({function_die, std::move(ranges), 0,
                         dwarf_tag(&function_die) == DW_TAG_inlined_subroutine});
    Dwarf_Die inside = function_die;
    walk(&inside, depth + 1);
    functions[index].end = static_cast<uint32_t>(functions.size());
  }

  /// The indexes of the functions around `address`, outermost first.
  std::vector<uint32_t> chain_at(uint64_t address) const {
    const Start* const start = range_at(starts, address);
    if (start == nullptr) return {};
    std::vector<uint32_t> chain{start->function};
    const uint32_t end = functions[start->function].end;
    if (!patience.walk(end - start->function)) return {};
    for (uint32_t i = start->function + 1; i < end;) {
      const bool here = functions[i].inlined && functions[i].contains(address);
      if (here) chain.push_back(i);
      i = here ? i + 1 : functions[i].end;
    }
    return chain;
  }
};

/// What lies around the functions of one unit. libdw would go through the unit for every function.
class DwarfFunctions::Scopes {
 public:
  Scopes(Dwarf_Die unit, DwarfPatience& patience) : patience_(patience) {
    is_read_ = add(&unit, 0, 0);
  }

  /// The names of the namespaces, classes and functions around a function, each with "::"; null:
  /// the unit could not be read.
  std::optional<std::string> around(const Dwarf_Die& function) const {
    if (!is_read_) return std::nullopt;
    const auto before = std::ranges::lower_bound(scopes_, function.addr, {},
                                                 [](const Scope& scope) { return scope.die.addr; });
    auto at = static_cast<uint32_t>(before - scopes_.begin());
    while (at != 0 && !goes_on_to(at, function.addr)) at = scopes_[at - 1].around;
    std::string text;
    for (; at != 0; at = scopes_[at - 1].around) {
      Dwarf_Die scope = scopes_[at - 1].die;
      const int tag = dwarf_tag(&scope);
      if (has_no_name(tag)) continue;
      const char* name = dwarf_diename(&scope);
      const char* const none = tag == DW_TAG_namespace ? "(anonymous namespace)" : "{unnamed}";
      text.insert(0, std::string(name != nullptr ? name : none) + "::");
    }
    return text;
  }

 private:
  struct Scope {
    Dwarf_Die die;
    const void* end;  ///< the next entry beside it; null: it ends with what is around it
    uint32_t around;  ///< its place in scopes_, from 1 on; 0: the unit
  };

  static bool has_no_name(int tag) {
    return tag == DW_TAG_lexical_block || tag == DW_TAG_inlined_subroutine || tag == DW_TAG_module;
  }

  bool goes_on_to(uint32_t at, const void* entry) const {
    while (at != 0 && scopes_[at - 1].end == nullptr) at = scopes_[at - 1].around;
    return at == 0 || entry < scopes_[at - 1].end;
  }

  /// Adds what has functions in it. False: not all was read.
  bool add(Dwarf_Die* parent, uint32_t inside, int depth) {
    Dwarf_Die child;
    if (dwarf_child(parent, &child) != 0) return true;
    if (depth == kMaxDieDepth) return false;
    for (bool more = true; more;) {
      if (!patience_.take_entry()) return false;
      const size_t place = scopes_.size();
      switch (dwarf_tag(&child)) {
        case DW_TAG_subprogram:
          ++functions_;
          [[fallthrough]];
        case DW_TAG_namespace:
        case DW_TAG_class_type:
        case DW_TAG_structure_type:
        case DW_TAG_union_type:
        case DW_TAG_lexical_block:
        case DW_TAG_inlined_subroutine:
        case DW_TAG_module: {
          const uint64_t before = functions_;
          scopes_.push_back({child, nullptr, inside});
          if (!add(&child, static_cast<uint32_t>(place + 1), depth + 1)) return false;
          if (functions_ == before) scopes_.resize(place);
          break;
        }
        default:
          break;
      }
      more = dwarf_siblingof(&child, &child) == 0;
      if (more && scopes_.size() > place) scopes_[place].end = child.addr;
    }
    return true;
  }

  DwarfPatience& patience_;
  bool is_read_ = false;
  uint64_t functions_ = 0;
  std::vector<Scope> scopes_;  // in the order of the entries
};

DwarfFunctions::DwarfFunctions(Dwarf* dwarf, const std::vector<std::string>& folders)
    : patience_(file_bytes(dwarf)) {
  Dwarf_CU* unit = nullptr;
  Dwarf_Half version = 0;
  uint8_t type = 0;
  Dwarf_Die die, split;
  int found = 0;
  while ((found = dwarf_get_units(dwarf, unit, &unit, &version, &type, &die, nullptr)) == 0) {
    has_split_units_ |= type == DW_UT_skeleton || is_elsewhere(&die);
    if (type == DW_UT_skeleton) {
      if (split_of(&die, folders, split))
        add_unit(&die, &split, version);
      else
        note_missing(&die);
    } else if (dwarf_tag(&die) == DW_TAG_compile_unit && !is_elsewhere(&die)) {
      add_unit(&die, &die, version);
    }
  }
  is_damaged_ = found < 0;
  std::ranges::sort(unit_ranges_, {}, &UnitRange::begin);
}

void DwarfFunctions::note_missing(Dwarf_Die* skeleton) {
  if (ranges_of(skeleton, patience_).empty() || missing_units_++ > 0) return;
  const std::filesystem::path folder = text_of(skeleton, DW_AT_comp_dir);
  missing_file_ = folder / split_name(skeleton);
}

DwarfFunctions::~DwarfFunctions() = default;

void DwarfFunctions::add_unit(Dwarf_Die* die, Dwarf_Die* functions, int version) {
  const std::vector<Range> ranges = ranges_of(die, patience_);
  if (ranges.empty()) return;
  const auto index = static_cast<uint32_t>(units_.size());
  units_.push_back(std::make_unique<Unit>(*die, *functions, version, patience_));
  for (const Range& range : ranges) unit_ranges_.push_back({range.begin, range.end, index});
}

bool DwarfFunctions::is_of_one_unit(uint64_t address, uint64_t other) const {
  const UnitRange *a = range_at(unit_ranges_, address), *b = range_at(unit_ranges_, other);
  return a == nullptr || (b != nullptr && a->unit == b->unit);
}

DwarfFunctions::Unit* DwarfFunctions::unit_at(uint64_t address) {
  const UnitRange* const range = range_at(unit_ranges_, address);
  if (range == nullptr) return nullptr;
  Unit* unit = units_[range->unit].get();
  if (!unit->indexed) unit->index();
  return unit;
}

/// Functions that are local to their file have no mangled name. Theirs is made of the names around
/// them.
std::string DwarfFunctions::name_of(Dwarf_Die* die) {
  if (const char* mangled = mangled_name_of(die)) return mangled;
  const char* name = dwarf_diename(die);
  if (name == nullptr) return "";
  Dwarf_Die declaration = declaration_of(*die), unit;
  if (dwarf_diecu(&declaration, &unit, nullptr, nullptr) == nullptr) return "";
  std::unique_ptr<Scopes>& scopes = scopes_[unit.addr];
  if (scopes == nullptr) scopes = std::make_unique<Scopes>(unit, patience_);
  const auto around = scopes->around(declaration);
  return around ? *around + name : "";
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
  if (dwarf_getsrcfiles(&unit->content, &files, &file_count) != 0) file_count = 0;
  const std::vector<uint32_t> chain = unit->chain_at(address);
  // Assembly has lines and no functions. clang's line tables leave out functions in which nothing
  // is inlined.
  if (chain.empty() && line > 0) frames.push_back({"", file, line, NameSource::kDwarf});
  for (size_t i = chain.size(); i-- > 0;) {
    Unit::Function& function = unit->functions[chain[i]];
    frames.push_back({name_of(&function.die), file, line, NameSource::kDwarf});
    // Files are numbered from 1 on before DWARF 5, and from 0 on since then.
    const std::optional<uint64_t> call_file = number_of(&function.die, DW_AT_call_file);
    const bool known = call_file && (*call_file > 0 || unit->version >= 5);
    const char* name = known && *call_file < file_count
                           ? dwarf_filesrc(files, *call_file, nullptr, nullptr)
                           : nullptr;
    file = name != nullptr ? name : "";
    line = static_cast<int>(number_of(&function.die, DW_AT_call_line).value_or(0));
  }
  return frames;
}

/// The sections from which functions and lines are read. libdw does not unpack some of the others.
constexpr std::array<std::string_view, 9> kNeeded{
    "debug_info", "debug_abbrev",      "debug_line",   "debug_str",     "debug_line_str",
    "debug_addr", "debug_str_offsets", "debug_ranges", "debug_rnglists"};

static bool is_needed(std::string_view name) {
  if (!name.starts_with(".debug_") && !name.starts_with(".zdebug_")) return false;
  return std::ranges::find(kNeeded, name.substr(name.find('d'))) != kNeeded.end();
}

DebugTrouble section_trouble(Elf* elf, const std::string& file, bool all) {
  using What = DebugTrouble::Kind;
  size_t names = 0;
  if (elf_getshdrstrndx(elf, &names) != 0) return {};
  DebugTrouble trouble;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) continue;
    const char* name = elf_strptr(elf, names, header.sh_name);
    if (name == nullptr || !is_needed(name) || header.sh_size == 0) continue;
    // Still set: libdw could not unpack it.
    const bool is_packed = (header.sh_flags & SHF_COMPRESSED) != 0;
    GElf_Chdr packed{};
    if (is_packed && gelf_getchdr(section, &packed) != nullptr && packed.ch_type != kPackedByZlib &&
        packed.ch_type != kPackedByZstd) {
      return {What::kUnknownPacking, file, 0, packed.ch_type};
    }
    if (all ? std::string_view(name).ends_with("debug_info") : is_packed)
      trouble = {What::kDamaged, file, 0, 0};
  }
  return trouble;
}

DebugTrouble section_trouble(const std::string& file) {
  struct stat status {};
  const Descriptor descriptor = open_elf(file, status);
  if (!descriptor) return {};
  Elf* elf = elf_begin(descriptor.get(), ELF_C_READ_MMAP_PRIVATE, nullptr);
  const DebugTrouble trouble = section_trouble(elf, file, true);
  elf_end(elf);
  return trouble;
}

}  // namespace gpupeak::collector
