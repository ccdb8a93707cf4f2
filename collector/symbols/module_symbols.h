// The symbols of one module, from its file or from a debug file in its place, found by path and
// build-id. Symbolizer keeps one for each module in which a shown address lies.
#pragma once

#include <elfutils/libdwfl.h>
#include <fcntl.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/log/definitions.h"
#include "collector/log/symbol_table.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/dwarf_functions.h"
#include "collector/symbols/loaded_image.h"
#include "collector/symbols/name_rules.h"
#include "collector/symbols/rtti_names.h"
#include "collector/text/byte_pack.h"
#include "collector/text/function_names.h"
#include "collector/text/lists.h"
#include "collector/text/text_format.h"
#include "collector/text/work.h"

namespace gpupeak::collector {

// Keeps the names of one module's addresses that were looked up, below XDG_CACHE_HOME, so that the
// next report does not unpack and read the same debug information again. ModuleSymbols uses it.
//
// in    the names that this report has looked up, and the files that were opened or looked for
// out   the same names, as long as each of those files is as it was, and so is this command
//
//   libc.so.6, found by its build-id in /usr/lib/debug
//     0x271c9 → __libc_start_call_main   libc_start_call_main.h:58

/// By ELF address.
using CachedNames = std::unordered_map<uint64_t, std::vector<DwarfFrame>>;

/// The names that are kept, an empty list for an address that has none. `key`: the module, and
/// where its names are looked for. Empty if nothing is kept, if one of the files has changed, or if
/// the cache is damaged or another user's.
CachedNames read_cached_names(const std::string& key);
void write_cached_names(const std::string& key, const std::vector<FileState>& files,
                        const CachedNames& names);

class ModuleSymbols {
 public:
  enum class State { kUsable, kMissing, kMismatch };

  /// `rules` may be nullptr; otherwise it must outlive this.
  ModuleSymbols(const Module& module, const SymbolSearch& search, const NameRules* rules)
      : cache_key_(key_of(module, search)),
        rules_(rules),
        path_(search.sysroot + module.path),
        file_name_(file_name(module.path)),
        debug_files_(debug_folders(search)) {
    callbacks_ = {dwfl_build_id_find_elf, &DebugFiles::find, dwfl_offline_section_address, nullptr};
    for (const std::string& path : symbol_files(module, search)) {
      if (open(path, module.build_id)) return;
    }
    const std::string fetched = debug_file_from_servers(module.build_id);
    if (!fetched.empty()) open(fetched, module.build_id);
  }
  ~ModuleSymbols() {
    keep_names();
    close();
  }
  ModuleSymbols(const ModuleSymbols&) = delete;
  ModuleSymbols& operator=(const ModuleSymbols&) = delete;

  State state() const { return state_; }
  /// The file is missing only because no more files may be open.
  bool lacks_descriptors() const { return lacks_descriptors_; }
  /// When the file that ran was last written, since 1970. None: it is no longer at its own path.
  std::optional<int64_t> written_ns() const {
    if (state_ != State::kUsable || file_.path != path_) return std::nullopt;
    return file_.modified_ns;
  }
  /// The version in the symbols that the library itself defines ("VERS_1.29.0"), or empty.
  std::string symbol_version() {
    const std::lock_guard lock(mutex_);
    Dwarf_Addr bias = 0;
    return std::string(LoadedImage(dwfl_module_getelf(module_, &bias)).symbol_version());
  }
  /// Sets the version of a library that is a part of another one's release. Call it before
  /// frames_at().
  void set_version(const std::string& version) {
    const std::lock_guard lock(mutex_);
    if (version_.empty()) version_ = version;
  }
  /// Why the module has no lines, or not all. Call it after frames_at().
  DebugTrouble debug_trouble() {
    const std::lock_guard lock(mutex_);
    return trouble_;
  }
  /// The frames at an ELF address, innermost first; empty if nothing is known. Several threads may
  /// call it; one at a time looks.
  const std::vector<DwarfFrame>& frames_at(uint64_t address) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(was_asked_, true)) read_kept_names();
    const auto [entry, added] = found_.try_emplace(address);
    if (added) {
      const uint64_t cuts = cut_count();
      entry->second = find_frames(address);
      has_new_names_ = !cache_key_.empty();
      if (cuts != cut_count()) {  // somebody cut a file, and zeros were read
        entry->second.clear();
        cache_key_.clear();
      }
    }
    return entry->second;
  }
  /// Writes names that are new into the user's cache. The destructor does it, too.
  /// Keeps names only if reading the files again would take longer than reading the cache, and if
  /// only files decided what was found.
  void keep_names() {
    if (!std::exchange(has_new_names_, false) || cache_key_.empty()) return;
    constexpr uint64_t kWorthBytes = 256 << 10;
    std::vector<FileState> files = looked_for_;
    files.insert(files.end(), debug_files_.looked_for().begin(), debug_files_.looked_for().end());
    const uint64_t bytes = sum_of(files, &FileState::bytes);
    // A server may have later what it does not have now.
    const bool may_be_found_later = !functions_ && !debug_servers().empty();
    const bool is_complete = !functions_ || functions_->is_complete();
    // Later reports must tell of the trouble, too, and the cache does not have it.
    const bool has_trouble = trouble_.kind != DebugTrouble::Kind::kNone;
    if (bytes >= kWorthBytes && is_complete && !has_trouble && !may_be_found_later)
      write_cached_names(cache_key_, files, found_);
  }

 private:
  /// A program may have thousands of libraries, and each stays open here. A shell allows a thousand
  /// open files at first, and more on request.
  static bool raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit) == 0;
  }

  /// All that a module's names depend on, except for files and its version. Empty: names are not
  /// kept.
  static std::string key_of(const Module& module, const SymbolSearch& search) {
    if (!search.keep) return "";
    BytePacker key;
    key.text(module.path);
    key.text(module.build_id);
    key.text(search.sysroot);
    for (const std::string& folder : search.debug_dirs) key.text(folder);
    key.text(debug_servers());
    return key.bytes();
  }

  struct Symbol {
    uint64_t begin, bytes;
    bool global;
    NameSource source;
    const char* name;
  };

  /// The version decides by which rules virtual functions are named.
  void read_kept_names() {
    if (std::string version = package_version(path_); !version.empty())
      version_ = std::move(version);
    if (cache_key_.empty()) return;
    cache_key_ += version_;
    found_ = read_cached_names(cache_key_);
  }
  std::vector<DwarfFrame> find_frames(uint64_t address) {
    load();
    std::vector<DwarfFrame> frames;
    if (functions_) frames = functions_->frames_at(address - dwarf_bias_);
    const Symbol* symbol = symbol_at(address);
    // A label without a size does not reach into code of another unit (GHC's has no symbols).
    if (symbol != nullptr && symbol->bytes == 0 && functions_ &&
        !functions_->is_of_one_unit(address - dwarf_bias_, symbol->begin - dwarf_bias_))
      symbol = nullptr;
    if (frames.empty() && symbol != nullptr)
      frames.push_back({symbol->name, "", 0, symbol->source});
    if (!frames.empty() && symbol != nullptr) {
      // Debug information names local functions without their namespaces; the symbol has them.
      std::string& outermost = frames.back().function;
      const bool mangled = std::string_view(symbol->name).starts_with("_Z");
      const bool readable = strlen(symbol->name) <= kLongestMangled;
      if (outermost.empty()) frames.back().source = symbol->source;
      if (outermost.empty() || (mangled && readable && !outermost.starts_with("_Z")))
        outermost = symbol->name;
      std::string folded = folded_names(*symbol);
      if (!folded.empty()) outermost = std::move(folded);
    }
    if (frames.empty()) {
      const std::string name = virtual_name(address);
      if (!name.empty()) frames.push_back({name, "", 0, NameSource::kRtti});
    }
    if (frames.empty()) {
      load_api_tables();
      if (const ApiFunction* function = range_at(api_functions_, address))
        frames.push_back({function->name, "", 0, NameSource::kApiTable});
    }
    return frames;
  }
  bool open(const std::string& path, std::string_view build_id) {
    struct stat status {};
    looked_for_.push_back(state_of_file(path));
    Descriptor file = open_elf(path, status);
    if (!file && errno == EMFILE && raise_descriptor_limit()) file = open_elf(path, status);
    lacks_descriptors_ |= !file && (errno == EMFILE || errno == ENFILE);
    if (!file) return false;
    file_ = state_of(path, status);
    close();
    dwfl_ = dwfl_begin(&callbacks_);
    if (dwfl_ == nullptr) return false;
    dwfl_report_begin(dwfl_);
    // With base 0 and the file's own addresses, look-ups take plain ELF addresses.
    // Debug files are looked for beside the path that it had.
    const std::string name = path.starts_with("/proc/") ? without_deleted(path_) : path;
    module_ = dwfl_report_elf(dwfl_, name.c_str(), name.c_str(), file.get(), 0, true);
    if (module_ != nullptr) {
      file.release();
      void** user_data = nullptr;
      dwfl_module_info(module_, &user_data, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
      *user_data = &debug_files_;
    }
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
  void close() {
    functions_.reset();
    if (dwfl_ != nullptr) dwfl_end(dwfl_);
    dwfl_ = nullptr;
  }
  void load() {
    if (loaded_) return;
    loaded_ = true;
    ++work().files;
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
    // Of several symbols at one address the last is used, so the best one comes last: it has a
    // size, is global, has no leading underscore, and is the shortest.
    std::ranges::sort(symbols_, [](const Symbol& a, const Symbol& b) {
      if (a.begin != b.begin) return a.begin < b.begin;
      if ((a.bytes != 0) != (b.bytes != 0)) return b.bytes != 0;
      if (a.global != b.global) return b.global;
      if ((*a.name == '_') != (*b.name == '_')) return *a.name == '_';
      const size_t x = strlen(a.name);
      const size_t y = strlen(b.name);
      return x != y ? x > y : strcmp(a.name, b.name) > 0;
    });
    load_dwarf();
  }
  void load_dwarf() {
    using What = DebugTrouble::Kind;
    Dwarf* dwarf = dwfl_module_getdwarf(module_, &dwarf_bias_);
    if (dwarf == nullptr) {
      for (const std::string& file : files()) {
        if (trouble_.kind == What::kNone) trouble_ = section_trouble(file);
      }
    } else if (!debug_files_.has_common_file(dwarf)) {
      trouble_ = {What::kCommonMissing, DebugFiles::common_file(dwarf), 0, 0};
    } else {
      std::vector<std::string> folders;
      for (const std::string& file : files())
        folders.push_back(std::filesystem::path(file).parent_path());
      functions_ = std::make_unique<DwarfFunctions>(dwarf, folders);
      trouble_ = section_trouble(dwarf_getelf(dwarf), files().back(), false);
      if (trouble_.kind == What::kNone) trouble_ = trouble_of_functions();
    }
  }
  DebugTrouble trouble_of_functions() const {
    using What = DebugTrouble::Kind;
    if (functions_->is_damaged()) return {What::kDamaged, files().back(), 0, 0};
    const size_t units = functions_->missing_units();
    if (units == 0) return {};
    for (const std::string& file : files()) {
      if (open_regular(file + ".dwp")) return {What::kPackageUnread, file + ".dwp", units, 0};
    }
    return {What::kSplitMissing, functions_->missing_file(), units, 0};
  }
  /// The module's file, and its debug file if that is another one.
  std::vector<std::string> files() const {
    const char *main_file = nullptr, *debug_file = nullptr;
    dwfl_module_info(module_, nullptr, nullptr, nullptr, nullptr, nullptr, &main_file, &debug_file);
    std::vector<std::string> found{main_file != nullptr ? main_file : file_.path};
    if (debug_file != nullptr) found.emplace_back(debug_file);
    return found;
  }
  /// Where symbols come from: the file, its debug file, or the packed table of symbols in it.
  NameSource source_of(Elf* elf) const {
    bool exports = false;
    for (Elf_Scn* section = nullptr; (section = elf_nextscn(elf, section)) != nullptr;) {
      GElf_Shdr header;
      if (gelf_getshdr(section, &header) == nullptr) continue;
      exports = exports || header.sh_type == SHT_DYNSYM;
      if (header.sh_type != SHT_SYMTAB) continue;
      // The packed table is an ELF file within the file, and has no segments.
      size_t segments = 0;
      const bool packed = elf_getphdrnum(elf, &segments) == 0 && segments == 0;
      return packed ? NameSource::kDebugData : NameSource::kSymtab;
    }
    return exports ? NameSource::kDynsym : NameSource::kSymtab;
  }
  /// The name of a virtual function; empty: it is not known. Called only if the address has no
  /// other name, since most modules keep their symbols.
  std::string virtual_name(uint64_t address) {
    Dwarf_Addr bias = 0;
    if (!rtti_) rtti_ = std::make_unique<LibraryRtti>(dwfl_module_getelf(module_, &bias));
    const RttiTable* table = rtti_->table_for(address);
    const RttiTable::Function* function = table != nullptr ? table->function_at(address) : nullptr;
    if (function == nullptr) return "";
    if (!rtti_names_)
      rtti_names_ = std::make_unique<RttiNames>(*table, file_name_, version_, rules_);
    return rtti_names_->name_of(*function);
  }
  /// The names of all functions that are this one code: linkers fold equal functions (--icf), g++
  /// does too, and nothing tells which was called. Empty: it has one name. In C a second name is
  /// mostly an alias, so only names of C++ and Rust count.
  std::string folded_names(const Symbol& symbol) const {
    constexpr size_t kMostNames = 3;
    const auto before = [](const Symbol& a, const Symbol& b) { return a.begin < b.begin; };
    const auto [first, last] = std::equal_range(symbols_.begin(), symbols_.end(), symbol, before);
    if (last - first < 2) return "";
    std::set<std::string> names;
    for (auto one = first; one != last; ++one) {
      const std::string_view name = one->name;
      if (one->bytes == 0 || name.size() > kLongestMangled) continue;
      if (name.starts_with("_Z") || name.starts_with("_R"))
        names.emplace(without_signature(demangle(one->name)));
    }
    if (names.size() < 2) return "";
    const bool has_more = names.size() > kMostNames;
    if (has_more) names.erase(std::next(names.begin(), kMostNames), names.end());
    return fmt::format("{}{}", fmt::join(names, kOr), has_more ? " or …" : "");
  }
  void load_api_tables() {
    if (api_tables_loaded_ || rules_ == nullptr) return;
    api_tables_loaded_ = true;
    Dwarf_Addr bias = 0;
    Elf* elf = dwfl_module_getelf(module_, &bias);
    for (const TableRule& rule : rules_->tables) {
      if (!rule.applies_to(file_name_)) continue;
      const auto entry =
          std::ranges::find_if(symbols_, [&](const Symbol& s) { return rule.entry == s.name; });
      if (entry == symbols_.end()) continue;
      for (ApiFunction& function : api_functions(elf, rule, entry->begin))
        api_functions_.push_back(std::move(function));
    }
    std::ranges::stable_sort(api_functions_, {}, &ApiFunction::begin);
  }
  const Symbol* symbol_at(uint64_t address) const {
    auto next = std::ranges::upper_bound(symbols_, address, {}, &Symbol::begin);
    if (next == symbols_.begin()) return nullptr;
    const Symbol& symbol = *std::prev(next);
    // Where only few functions have symbols, one without a size does not cover all that follows it.
    const bool endless = symbol.bytes == 0 && symbol.source != NameSource::kDynsym;
    const bool inside = endless || address - symbol.begin < symbol.bytes;
    return inside ? &symbol : nullptr;
  }

  Dwfl_Callbacks callbacks_{};
  Dwfl* dwfl_ = nullptr;
  Dwfl_Module* module_ = nullptr;
  State state_ = State::kMissing;
  bool lacks_descriptors_ = false;
  std::mutex mutex_;  // for all below
  bool loaded_ = false;
  std::string cache_key_;       ///< empty: its names are not kept
  bool was_asked_ = false;      ///< for an address
  bool has_new_names_ = false;  ///< names that the cache does not have
  CachedNames found_;
  Dwarf_Addr dwarf_bias_ = 0;
  std::vector<Symbol> symbols_;
  std::unique_ptr<DwarfFunctions> functions_;
  const NameRules* rules_;
  std::string path_, file_name_;
  FileState file_;
  std::vector<FileState> looked_for_;  ///< the file and those that were tried before it
  DebugFiles debug_files_;
  DebugTrouble trouble_;
  std::unique_ptr<LibraryRtti> rtti_;
  std::unique_ptr<RttiNames> rtti_names_;
  std::string version_;  ///< of its Python package, if it is in one, or of its release
  bool api_tables_loaded_ = false;
  std::vector<ApiFunction> api_functions_;  // ascending
};

// Keeps the symbols of modules that were read, for callers that read many logs of the same
// programs.
class ModuleCache {
 public:
  /// The module's symbols. All calls must have the same search and rules. Several threads may call
  /// it.
  std::shared_ptr<ModuleSymbols> of(const Module& module, const SymbolSearch& search,
                                    const NameRules* rules) {
    const std::lock_guard lock(mutex_);
    auto& symbols = modules_[{module.path, module.build_id}];
    if (!symbols) symbols = std::make_shared<ModuleSymbols>(module, search, rules);
    return symbols;
  }
  /// Writes names that are new into the user's cache.
  void keep_names() {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, symbols] : modules_) symbols->keep_names();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ModuleSymbols>> modules_;
};

}  // namespace gpupeak::collector
