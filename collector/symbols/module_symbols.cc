#include "collector/symbols/module_symbols.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "collector/log/definitions.h"

namespace gpupeak::collector {
namespace {

constexpr const char* kDefaultDebugDir = "/usr/lib/debug";

/// "ab/cdef…", as debug files are named by build-id.
std::string build_id_path(std::string_view build_id) {
  std::string text;
  for (const char byte : build_id) {
    text += fmt::format("{:02x}", static_cast<uint8_t>(byte));
    if (text.size() == 2) text += '/';
  }
  return text;
}

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

/// The file itself, then debug files that hold its symbols as well.
std::vector<std::string> candidates(const Module& module) {
  const SymbolSearch& search = symbol_search();
  std::vector<std::string> paths{search.sysroot + module.path};
  std::vector<std::string> folders = search.debug_dirs;
  folders.push_back(search.sysroot + kDefaultDebugDir);
  for (const std::string& folder : folders) {
    if (!module.build_id.empty()) {
      paths.push_back(folder + "/.build-id/" + build_id_path(module.build_id) + ".debug");
    }
    paths.push_back(folder + module.path + ".debug");
  }
  for (const std::string& folder : search.debug_dirs) {  // a folder of binaries
    paths.push_back(folder + "/" + module.path.substr(module.path.rfind('/') + 1));
  }
  return paths;
}

}  // namespace

SymbolSearch& symbol_search() {
  static SymbolSearch search;
  return search;
}

ModuleSymbols::ModuleSymbols(const Module& module) {
  debug_path_ =
      ":.debug:";  // libdwfl's own way: beside the file, and by build-id below the folders
  for (const std::string& folder : symbol_search().debug_dirs) debug_path_ += folder + ":";
  debug_path_ += symbol_search().sysroot + kDefaultDebugDir;
  debug_path_text_ = debug_path_.data();
  callbacks_ = {dwfl_build_id_find_elf, dwfl_standard_find_debuginfo, dwfl_offline_section_address,
                &debug_path_text_};
  for (const std::string& path : candidates(module)) {
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

std::vector<DwarfFrame> ModuleSymbols::frames_at(uint64_t address) {
  load();
  std::vector<DwarfFrame> frames;
  if (functions_) frames = functions_->frames_at(address - dwarf_bias_);
  const Symbol* symbol = symbol_at(address);
  if (frames.empty() && symbol != nullptr) frames.push_back({symbol->name, "", 0});
  if (!frames.empty() && symbol != nullptr) {
    // Debug information names local functions without their namespaces.
    std::string& outermost = frames.back().function;
    const bool mangled = std::string_view(symbol->name).starts_with("_Z");
    if (outermost.empty() || (mangled && !outermost.starts_with("_Z"))) outermost = symbol->name;
  }
  return frames;
}

void ModuleSymbols::load() {
  if (loaded_) return;
  loaded_ = true;
  const int count = dwfl_module_getsymtab(module_);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    GElf_Word section = 0;
    const char* name =
        dwfl_module_getsym_info(module_, i, &symbol, &address, &section, nullptr, nullptr);
    const int type = GELF_ST_TYPE(symbol.st_info);
    const bool code = type == STT_FUNC || type == STT_GNU_IFUNC || type == STT_NOTYPE;
    if (name == nullptr || *name == 0 || *name == '$' || section == SHN_UNDEF || !code) continue;
    symbols_.push_back({address, symbol.st_size, GELF_ST_BIND(symbol.st_info) != STB_LOCAL, name});
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
  const bool inside = symbol.bytes == 0 || address - symbol.begin < symbol.bytes;
  return inside ? &symbol : nullptr;
}

}  // namespace gpupeak::collector
