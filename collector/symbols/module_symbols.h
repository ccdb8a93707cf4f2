// The symbols of one module, from its file or from a debug file in its place, found by path and
// build-id. Symbolizer keeps one for each module in which a shown address lies.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/log/symbol_table.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/dwarf_functions.h"
#include "collector/symbols/name_rules.h"
#include "collector/symbols/rtti_names.h"

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

struct Module;

class ModuleSymbols {
 public:
  enum class State { kUsable, kMissing, kMismatch };

  /// `rules` may be nullptr; otherwise it must outlive this.
  ModuleSymbols(const Module& module, const SymbolSearch& search, const NameRules* rules);
  ~ModuleSymbols();
  ModuleSymbols(const ModuleSymbols&) = delete;
  ModuleSymbols& operator=(const ModuleSymbols&) = delete;

  State state() const { return state_; }
  /// The file is missing only because no more files may be open.
  bool lacks_descriptors() const { return lacks_descriptors_; }
  /// When the file that ran was last written, since 1970. None: it is no longer at its own path.
  std::optional<int64_t> written_ns() const;
  /// The version in the symbols that the library itself defines ("VERS_1.29.0"), or empty.
  std::string symbol_version();
  /// Sets the version of a library that is a part of another one's release. Call it before
  /// frames_at().
  void set_version(const std::string& version);
  /// Why the module has no lines, or not all. Call it after frames_at().
  DebugTrouble debug_trouble();
  /// The frames at an ELF address, innermost first; empty if nothing is known. Several threads may
  /// call it; one at a time looks.
  const std::vector<DwarfFrame>& frames_at(uint64_t address);
  /// Writes names that are new into the user's cache. The destructor does it, too.
  void keep_names();

 private:
  struct Symbol {
    uint64_t begin, bytes;
    bool global;
    NameSource source;
    const char* name;
  };

  void read_kept_names();
  std::vector<DwarfFrame> find_frames(uint64_t address);
  bool open(const std::string& path, std::string_view build_id);
  void close();
  void load();
  void load_dwarf();
  DebugTrouble trouble_of_functions() const;
  std::vector<std::string> files() const;
  NameSource source_of(Elf* elf) const;
  std::string virtual_name(uint64_t address);
  std::string folded_names(const Symbol& symbol) const;
  void load_api_tables();
  const Symbol* symbol_at(uint64_t address) const;

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
                                    const NameRules* rules);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ModuleSymbols>> modules_;
};

}  // namespace gpupeak::collector
