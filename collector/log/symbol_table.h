// Functions and lines that were looked up on the machine that has the binaries, to be used on
// others. `gpupeak symbolize` writes them beside a log, and a bundle carries them. LogReader reads
// them, Symbolizer asks them first. docs/symbols.md describes the JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/text/function_names.h"

namespace gpupeak::collector {

struct Module;

/// One function at an address, as symbols or debug information name it. Names are mangled.
struct DwarfFrame {
  std::string function;
  std::string file;
  int line = 0;  ///< 0: not known
  NameSource source = NameSource::kNone;
};

/// The file of symbols beside a log is named as the log, with this at the end.
inline constexpr const char* kSymbolsSuffix = ".symbols";

class SymbolTable {
 public:
  /// A table that knows nothing.
  SymbolTable() = default;
  /// Reads the JSON. `log_cookie` is that of the log at hand: modules without a build-id are
  /// trusted only if the table was made from this very log. Throws LogError if it is no such table.
  SymbolTable(std::string_view json, uint64_t log_cookie);

  void add(const Module& module, uint64_t address, std::vector<DwarfFrame> frames);
  /// Why the module's file gave no names when the table was made: kMissing, kOtherBuild.
  static constexpr std::string_view kMissing = "missing";
  static constexpr std::string_view kOtherBuild = "other build";
  void add_problem(const Module& module, std::string_view problem);
  /// The table as compact JSON.
  std::string json(uint64_t log_cookie) const;

  /// The function at an ELF address and the functions into which it is inlined. nullptr if the
  /// table does not have the address.
  const std::vector<DwarfFrame>* find(const Module& module, uint64_t address) const;
  /// Whether the table has functions of this module.
  bool knows(const Module& module) const { return modules_.contains(key(module)); }
  /// The module's problem. Empty: its file could be read, or the table does not say.
  std::string_view problem(const Module& module) const;
  bool empty() const { return modules_.empty(); }
  /// Whether the table was made from the log at hand, so that all of the log's modules were looked
  /// for.
  bool is_of_this_log() const { return is_of_this_log_; }

 private:
  struct Key {
    std::string path;      ///< escaped; empty where there is a build-id
    std::string build_id;  ///< hexadecimal
    auto operator<=>(const Key&) const = default;
  };
  using Frames = std::unordered_map<uint64_t, std::vector<DwarfFrame>>;
  struct ModuleFrames {
    std::string path;  ///< for people who read the file
    std::string problem;
    Frames frames;
  };

  static Key key(const Module& module);

  std::map<Key, ModuleFrames> modules_;
  bool is_of_this_log_ = false;
};

}  // namespace gpupeak::collector
