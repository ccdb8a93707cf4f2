// The symbols of one module, from its file or from a debug file in its place, found by path and
// build-id. Symbolizer keeps one for each module in which a shown address lies.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "collector/files/file_state.h"
#include "collector/symbols/api_table.h"
#include "collector/symbols/debug_files.h"
#include "collector/symbols/debug_trouble.h"
#include "collector/symbols/dwarf_functions.h"
#include "collector/symbols/name_cache.h"
#include "collector/symbols/rtti_cache.h"
#include "collector/symbols/rtti_names.h"
#include "collector/symbols/symbol_search.h"

namespace gpupeak::collector {

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
  /// Sets the version of a library that is a part of another one's release.
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

  std::vector<DwarfFrame> find_frames(uint64_t address);
  bool open(const std::string& path, std::string_view build_id);
  void close();
  void load();
  void load_dwarf();
  DebugTrouble trouble_of_functions() const;
  std::vector<std::string> files() const;
  NameSource source_of(Elf* elf) const;
  std::string virtual_name(uint64_t address);
  void load_api_tables();
  const ApiFunction* api_function_at(uint64_t address) const;
  const Symbol* symbol_at(uint64_t address) const;

  Dwfl_Callbacks callbacks_{};
  Dwfl* dwfl_ = nullptr;
  Dwfl_Module* module_ = nullptr;
  State state_ = State::kMissing;
  bool lacks_descriptors_ = false;
  std::mutex mutex_;  // for all below
  bool loaded_ = false;
  const std::string cache_key_;  ///< empty: its names are not kept
  bool has_new_names_ = false;   ///< names that the cache does not have
  CachedNames found_;
  Dwarf_Addr dwarf_bias_ = 0;
  std::vector<Symbol> symbols_;
  std::unique_ptr<DwarfFunctions> functions_;
  const NameRules* rules_;
  std::string path_, file_name_;
  std::string build_id_;
  FileState file_;
  std::vector<FileState> looked_for_;  ///< the file and those that were tried before it
  DebugFiles debug_files_;
  DebugTrouble trouble_;
  std::unique_ptr<LibraryRtti> rtti_;
  std::unique_ptr<RttiNames> rtti_names_;
  std::string version_;
  bool api_tables_loaded_ = false;
  std::vector<ApiFunction> api_functions_;  // ascending
};

}  // namespace gpupeak::collector
