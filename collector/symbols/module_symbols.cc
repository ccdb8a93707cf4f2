#include "collector/symbols/module_symbols.h"

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_map>

#include "collector/log/definitions.h"
#include "collector/symbols/package_version.h"
#include "collector/symbols/rtti_cache.h"
#include "collector/symbols/symbol_files.h"

namespace gpupeak::collector {
namespace {

/// The debug file of a build-id from the servers that DEBUGINFOD_URLS names, or empty. The library
/// is loaded only then; it keeps what it fetched in a cache of its own.
std::string from_debuginfod(std::string_view build_id) {
  const char* urls = getenv("DEBUGINFOD_URLS");
  if (urls == nullptr || *urls == 0 || build_id.empty()) return "";
  void* library = dlopen("libdebuginfod.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return "";
  using Begin = void* (*)();
  using End = void (*)(void*);
  using Find = int (*)(void*, const unsigned char*, int, char**);
  const auto begin = reinterpret_cast<Begin>(dlsym(library, "debuginfod_begin"));
  const auto end = reinterpret_cast<End>(dlsym(library, "debuginfod_end"));
  const auto find = reinterpret_cast<Find>(dlsym(library, "debuginfod_find_debuginfo"));
  if (begin == nullptr || end == nullptr || find == nullptr) return "";
  std::string path;
  if (void* client = begin()) {
    char* found = nullptr;
    const int fd = find(client, reinterpret_cast<const unsigned char*>(build_id.data()),
                        static_cast<int>(build_id.size()), &found);
    if (fd >= 0) {
      path = found;
      ::close(fd);
    }
    free(found);
    end(client);
  }
  return path;
}

}  // namespace

ModuleSymbols::ModuleSymbols(const Module& module, const SymbolSearch& search,
                             const NameRules* rules)
    : rules_(rules),
      path_(search.sysroot + module.path),
      file_name_(module.path.substr(module.path.rfind('/') + 1)),
      build_id_(module.build_id) {
  debug_path_ =
      ":.debug:";  // libdwfl's own way: beside the file, and by build-id below the folders
  for (const std::string& folder : search.debug_dirs) debug_path_ += folder + ":";
  debug_path_ += search.sysroot + std::string(kDefaultDebugDir);
  debug_path_text_ = debug_path_.data();
  callbacks_ = {dwfl_build_id_find_elf, dwfl_standard_find_debuginfo, dwfl_offline_section_address,
                &debug_path_text_};
  for (const std::string& path : symbol_files(module, search)) {
    if (open(path, module.build_id)) return;
  }
  const std::string fetched = from_debuginfod(module.build_id);
  if (!fetched.empty()) open(fetched, module.build_id);
}

ModuleSymbols::~ModuleSymbols() {
  close();
}

void ModuleSymbols::close() {
  functions_.reset();
  if (dwfl_ != nullptr) dwfl_end(dwfl_);
  dwfl_ = nullptr;
}

bool ModuleSymbols::open(const std::string& path, std::string_view build_id) {
  struct stat status {};  // a log may name a pipe, which would wait for its other end
  if (stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  close();
  dwfl_ = dwfl_begin(&callbacks_);
  if (dwfl_ == nullptr) return false;
  dwfl_report_begin(dwfl_);
  // Base 0 and the file's own addresses: lookups then take plain ELF addresses.
  module_ = dwfl_report_elf(dwfl_, path.c_str(), path.c_str(), -1, 0, true);
  dwfl_report_end(dwfl_, nullptr, nullptr);
  Dwarf_Addr bias = 0;
  if (module_ == nullptr || dwfl_module_getelf(module_, &bias) == nullptr) return false;
  const unsigned char* bits = nullptr;
  GElf_Addr where = 0;
  const int bytes = dwfl_module_build_id(module_, &bits, &where);
  const std::string_view found(reinterpret_cast<const char*>(bits),
                               bytes > 0 ? static_cast<size_t>(bytes) : 0);
  state_ = build_id.empty() || found == build_id ? State::kUsable : State::kMismatch;
  return state_ == State::kUsable;
}

const std::vector<DwarfFrame>& ModuleSymbols::frames_at(uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto [entry, added] = found_.try_emplace(address);
  if (added) entry->second = find_frames(address);
  return entry->second;
}

std::vector<DwarfFrame> ModuleSymbols::find_frames(uint64_t address) {
  load();
  std::vector<DwarfFrame> frames;
  if (functions_) frames = functions_->frames_at(address - dwarf_bias_);
  const Symbol* symbol = symbol_at(address);
  if (frames.empty() && symbol != nullptr) {
    frames.push_back({symbol->name, "", 0, symbol->source});
  }
  if (!frames.empty() && symbol != nullptr) {
    // Debug information names local functions without their namespaces.
    std::string& outermost = frames.back().function;
    const bool mangled = std::string_view(symbol->name).starts_with("_Z");
    if (outermost.empty() || (mangled && !outermost.starts_with("_Z"))) outermost = symbol->name;
  }
  if (frames.empty()) {
    load_rtti();
    if (const RttiTable::Function* function = rtti_->function_at(address)) {
      const std::string name = rtti_names_->name_of(*function);
      if (!name.empty()) frames.push_back({name, "", 0, NameSource::kRtti});
    }
  }
  if (frames.empty()) {
    load_api_tables();
    if (const ApiFunction* function = api_function_at(address))
      frames.push_back({function->name, "", 0, NameSource::kApiTable});
  }
  return frames;
}

void ModuleSymbols::load_api_tables() {
  if (api_tables_loaded_ || rules_ == nullptr) return;
  api_tables_loaded_ = true;
  Dwarf_Addr bias = 0;
  Elf* elf = dwfl_module_getelf(module_, &bias);
  for (const TableRule& rule : rules_->tables) {
    if (!rule.applies_to(file_name_)) continue;
    const auto entry = std::find_if(symbols_.begin(), symbols_.end(),
                                    [&](const Symbol& s) { return rule.entry == s.name; });
    if (entry == symbols_.end()) continue;
    for (ApiFunction& function : api_functions(elf, rule, entry->begin))
      api_functions_.push_back(std::move(function));
  }
  std::stable_sort(api_functions_.begin(), api_functions_.end(),
                   [](const ApiFunction& a, const ApiFunction& b) { return a.begin < b.begin; });
}

const ApiFunction* ModuleSymbols::api_function_at(uint64_t address) const {
  auto next =
      std::upper_bound(api_functions_.begin(), api_functions_.end(), address,
                       [](uint64_t value, const ApiFunction& f) { return value < f.begin; });
  if (next == api_functions_.begin()) return nullptr;
  const ApiFunction& function = *std::prev(next);
  return address < function.end ? &function : nullptr;
}

/// Only once an address has no other name: most modules keep their symbols.
void ModuleSymbols::load_rtti() {
  if (rtti_) return;
  Dwarf_Addr bias = 0;
  rtti_ = std::make_unique<RttiTable>(cached_rtti(dwfl_module_getelf(module_, &bias), build_id_));
  rtti_names_ = std::make_unique<RttiNames>(*rtti_, file_name_, package_version(path_), rules_);
}

/// Symbols come from the file, from its debug file, or from the table of symbols packed in it.
NameSource ModuleSymbols::source_of(Elf* elf) const {
  bool exports = false;
  for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
    GElf_Shdr header;
    if (gelf_getshdr(section, &header) == nullptr) continue;
    exports = exports || header.sh_type == SHT_DYNSYM;
    if (header.sh_type != SHT_SYMTAB) continue;
    // The packed table is an ELF file within the file: it has no program of its own to run.
    size_t segments = 0;
    const bool packed = elf_getphdrnum(elf, &segments) == 0 && segments == 0;
    return packed ? NameSource::kDebugData : NameSource::kSymtab;
  }
  return exports ? NameSource::kDynsym : NameSource::kSymtab;
}

void ModuleSymbols::load() {
  if (loaded_) return;
  loaded_ = true;
  const int count = dwfl_module_getsymtab(module_);
  std::unordered_map<Elf*, NameSource> sources;
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section = 0;
    Elf* elf = nullptr;
    const char* name =
        dwfl_module_getsym_info(module_, i, &symbol, &address, &section, &elf, nullptr);
    const int type = GELF_ST_TYPE(symbol.st_info);
    const bool code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    if (name == nullptr || *name == 0 || *name == '$' || section == SHN_UNDEF || !code) continue;
    auto [source, added] = sources.try_emplace(elf);
    if (added) source->second = source_of(elf);
    const bool global = GELF_ST_BIND(symbol.st_info) != STB_LOCAL;
    symbols_.push_back({address, symbol.st_size, global, source->second, name});
  }
  // Of several names for one address the last is used: a sized one, a global one, one that is not
  // marked as internal, the shortest.
  std::sort(symbols_.begin(), symbols_.end(), [](const Symbol& a, const Symbol& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if ((a.bytes != 0) != (b.bytes != 0)) return b.bytes != 0;
    if (a.global != b.global) return b.global;
    if ((*a.name == '_') != (*b.name == '_')) return *a.name == '_';
    const size_t x = strlen(a.name);
    const size_t y = strlen(b.name);
    return x != y ? x > y : strcmp(a.name, b.name) > 0;
  });
  if (Dwarf* dwarf = dwfl_module_getdwarf(module_, &dwarf_bias_)) {
    functions_ = std::make_unique<DwarfFunctions>(dwarf);
  }
}

const ModuleSymbols::Symbol* ModuleSymbols::symbol_at(uint64_t address) const {
  auto next = std::upper_bound(symbols_.begin(), symbols_.end(), address,
                               [](uint64_t value, const Symbol& s) { return value < s.begin; });
  if (next == symbols_.begin()) return nullptr;
  const Symbol& symbol = *std::prev(next);
  // Where only a few functions have symbols, one without a size is not all that follows it.
  const bool endless = symbol.bytes == 0 && symbol.source != NameSource::kDynsym;
  const bool inside = endless || address - symbol.begin < symbol.bytes;
  return inside ? &symbol : nullptr;
}

}  // namespace gpupeak::collector
