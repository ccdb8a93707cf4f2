#include "collector/symbols/module_symbols.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "collector/files/fresh_file.h"
#include "collector/files/regular_file.h"
#include "collector/log/definitions.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/loaded_image.h"
#include "collector/text/byte_pack.h"
#include "collector/text/function_names.h"
#include "collector/text/numbers.h"
#include "collector/text/text_format.h"
#include "collector/text/work.h"

namespace gpupeak::collector {
namespace {

/// A program may have thousands of libraries, and each stays open here. A shell allows a thousand
/// open files at first, and more on request.
bool raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

/// All that a module's names depend on, except for files and its version. Empty: names are not
/// kept.
std::string key_of(const Module& module, const SymbolSearch& search) {
  if (!search.keep) return "";
  BytePacker key;
  key.text(module.path);
  key.text(module.build_id);
  key.text(search.sysroot);
  for (const std::string& folder : search.debug_dirs) key.text(folder);
  key.text(debug_servers());
  return key.bytes();
}

}  // namespace

ModuleSymbols::ModuleSymbols(const Module& module, const SymbolSearch& search,
                             const NameRules* rules)
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

ModuleSymbols::~ModuleSymbols() {
  keep_names();
  close();
}

/// Keeps names only if reading the files again would take longer than reading the cache, and if
/// only files decided what was found.
void ModuleSymbols::keep_names() {
  if (!std::exchange(has_new_names_, false) || cache_key_.empty()) return;
  constexpr uint64_t kWorthBytes = 256 << 10;
  std::vector<FileState> files = looked_for_;
  files.insert(files.end(), debug_files_.looked_for().begin(), debug_files_.looked_for().end());
  uint64_t bytes = 0;
  for (const FileState& file : files) bytes += file.bytes;
  // A server may have later what it does not have now.
  const bool may_be_found_later = !functions_ && !debug_servers().empty();
  const bool is_complete = !functions_ || functions_->is_complete();
  // Later reports must tell of the trouble, too, and the cache does not have it.
  const bool has_trouble = trouble_.kind != DebugTrouble::Kind::kNone;
  if (bytes >= kWorthBytes && is_complete && !has_trouble && !may_be_found_later)
    write_cached_names(cache_key_, files, found_);
}

void ModuleSymbols::close() {
  functions_.reset();
  if (dwfl_ != nullptr) dwfl_end(dwfl_);
  dwfl_ = nullptr;
}

bool ModuleSymbols::open(const std::string& path, std::string_view build_id) {
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
  module_ = dwfl_report_elf(dwfl_, path.c_str(), path.c_str(), file.get(), 0, true);
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

std::optional<int64_t> ModuleSymbols::written_ns() const {
  if (state_ != State::kUsable || file_.path != path_) return std::nullopt;
  return file_.modified_ns;
}

const std::vector<DwarfFrame>& ModuleSymbols::frames_at(uint64_t address) {
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

/// The version decides by which rules virtual functions are named.
void ModuleSymbols::read_kept_names() {
  if (std::string version = package_version(path_); !version.empty()) version_ = std::move(version);
  if (cache_key_.empty()) return;
  cache_key_ += version_;
  found_ = read_cached_names(cache_key_);
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

/// The names of all functions that are this one code: linkers fold equal functions (--icf), g++
/// does too, and nothing tells which was called. Empty: it has one name. In C a second name is
/// mostly an alias, so only names of C++ and Rust count.
std::string ModuleSymbols::folded_names(const Symbol& symbol) const {
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

void ModuleSymbols::load_api_tables() {
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

std::string ModuleSymbols::symbol_version() {
  const std::lock_guard lock(mutex_);
  Dwarf_Addr bias = 0;
  return std::string(LoadedImage(dwfl_module_getelf(module_, &bias)).symbol_version());
}

void ModuleSymbols::set_version(const std::string& version) {
  const std::lock_guard lock(mutex_);
  if (version_.empty()) version_ = version;
}

/// The name of a virtual function; empty: it is not known. Called only if the address has no other
/// name, since most modules keep their symbols.
std::string ModuleSymbols::virtual_name(uint64_t address) {
  Dwarf_Addr bias = 0;
  if (!rtti_) rtti_ = std::make_unique<LibraryRtti>(dwfl_module_getelf(module_, &bias));
  const RttiTable* table = rtti_->table_for(address);
  const RttiTable::Function* function = table != nullptr ? table->function_at(address) : nullptr;
  if (function == nullptr) return "";
  if (!rtti_names_) rtti_names_ = std::make_unique<RttiNames>(*table, file_name_, version_, rules_);
  return rtti_names_->name_of(*function);
}

/// Where symbols come from: the file, its debug file, or the packed table of symbols in it.
NameSource ModuleSymbols::source_of(Elf* elf) const {
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

void ModuleSymbols::load() {
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
  // Of several symbols at one address the last is used, so the best one comes last: it has a size,
  // is global, has no leading underscore, and is the shortest.
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

void ModuleSymbols::load_dwarf() {
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

DebugTrouble ModuleSymbols::trouble_of_functions() const {
  using What = DebugTrouble::Kind;
  if (functions_->is_damaged()) return {What::kDamaged, files().back(), 0, 0};
  const size_t units = functions_->missing_units();
  if (units == 0) return {};
  for (const std::string& file : files()) {
    if (open_regular(file + ".dwp")) return {What::kPackageUnread, file + ".dwp", units, 0};
  }
  return {What::kSplitMissing, functions_->missing_file(), units, 0};
}

DebugTrouble ModuleSymbols::debug_trouble() {
  const std::lock_guard lock(mutex_);
  return trouble_;
}

/// The module's file, and its debug file if that is another one.
std::vector<std::string> ModuleSymbols::files() const {
  const char *main_file = nullptr, *debug_file = nullptr;
  dwfl_module_info(module_, nullptr, nullptr, nullptr, nullptr, nullptr, &main_file, &debug_file);
  std::vector<std::string> found{main_file != nullptr ? main_file : file_.path};
  if (debug_file != nullptr) found.emplace_back(debug_file);
  return found;
}

const ModuleSymbols::Symbol* ModuleSymbols::symbol_at(uint64_t address) const {
  auto next = std::ranges::upper_bound(symbols_, address, {}, &Symbol::begin);
  if (next == symbols_.begin()) return nullptr;
  const Symbol& symbol = *std::prev(next);
  // Where only few functions have symbols, one without a size does not cover all that follows it.
  const bool endless = symbol.bytes == 0 && symbol.source != NameSource::kDynsym;
  const bool inside = endless || address - symbol.begin < symbol.bytes;
  return inside ? &symbol : nullptr;
}

std::shared_ptr<ModuleSymbols> ModuleCache::of(const Module& module, const SymbolSearch& search,
                                               const NameRules* rules) {
  const std::lock_guard lock(mutex_);
  auto& symbols = modules_[{module.path, module.build_id}];
  if (!symbols) symbols = std::make_shared<ModuleSymbols>(module, search, rules);
  return symbols;
}

namespace {

constexpr std::string_view kNamesMagic = "gpupeak names 1\n";
constexpr uint64_t kMostNamesBytes = 256 << 20;  // of all names that are kept
constexpr uint64_t kMostOfOneModule = kMostNamesBytes / 8;

/// Reads one frame. False: it is damaged, and so is all behind it.
bool unpack_frame(ByteUnpacker& in, const std::vector<std::string>& texts, DwarfFrame& frame) {
  const auto function = in.number<uint32_t>(), file = in.number<uint32_t>();
  const auto line = in.number<int32_t>();
  const auto source = in.number<uint8_t>();
  if (in.failed() || function >= texts.size() || file >= texts.size() ||
      source >= kNameSources.size())
    return false;
  frame = {texts[function], texts[file], line, static_cast<NameSource>(source)};
  return true;
}

bool unpack_names(ByteUnpacker& in, CachedNames& names) {
  std::vector<std::string> texts(in.count(sizeof(uint32_t)));
  for (std::string& text : texts) text = in.text();
  const uint32_t addresses = in.count(sizeof(uint64_t) + sizeof(uint32_t));
  names.reserve(addresses);
  for (uint32_t i = 0; i < addresses; ++i) {
    std::vector<DwarfFrame>& frames = names[in.number<uint64_t>()];
    frames.resize(in.count(3 * sizeof(uint32_t) + sizeof(uint8_t)));
    for (DwarfFrame& frame : frames) {
      if (!unpack_frame(in, texts, frame)) return false;
    }
  }
  return in.at_end();
}

std::string pack_names(const CachedNames& names) {
  Numbers<std::string> texts;  // many addresses have the same function or file
  BytePacker addresses;
  for (const auto& [address, frames] : names) {
    addresses.number(address);
    addresses.count(frames.size());
    for (const DwarfFrame& frame : frames) {
      addresses.number(texts.of(frame.function));
      addresses.number(texts.of(frame.file));
      addresses.number(static_cast<int32_t>(frame.line));
      addresses.number(static_cast<uint8_t>(frame.source));
    }
  }
  BytePacker out;
  out.count(texts.all().size());
  for (const std::string* text : texts.all()) out.text(*text);
  out.count(names.size());
  return out.bytes() + addresses.bytes();
}

}  // namespace

CachedNames read_cached_names(const std::string& key) {
  const std::string path = cache_entry(key);
  const auto sealed = path.empty() ? std::nullopt : read_cache_file(path);
  const auto bytes = sealed ? unseal(kNamesMagic, *sealed) : std::nullopt;
  if (!bytes) return {};
  ByteUnpacker in(*bytes);
  if (in.text() != key || unpack_state(in) != state_of_command()) return {};
  for (uint32_t left = in.count(sizeof(uint32_t)); left > 0; --left) {
    const FileState then = unpack_state(in);
    if (in.failed() || then != state_of_file(then.path)) return {};
  }
  CachedNames names;
  return unpack_names(in, names) ? names : CachedNames();
}

void write_cached_names(const std::string& key, const std::vector<FileState>& files,
                        const CachedNames& names) {
  const std::string path = cache_entry(key);
  const bool unchanged = std::ranges::all_of(
      files, [](const FileState& state) { return state == state_of_file(state.path); });
  if (path.empty() || !unchanged) return;
  BytePacker out;
  out.text(key);
  pack(state_of_command(), out);
  out.count(files.size());
  for (const FileState& state : files) pack(state, out);
  const std::string all = out.bytes() + pack_names(names);
  if (all.size() > kMostOfOneModule) return;
  keep_in_cache(path, seal(kNamesMagic, all), kMostNamesBytes);
}

}  // namespace gpupeak::collector
