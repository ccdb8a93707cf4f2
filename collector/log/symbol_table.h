// Functions and lines that were looked up where the binaries were, to be used where they are not:
// what `gpupeak symbolize` writes beside a log and a bundle carries. LogReader reads it, Symbolizer
// asks it first. docs/symbols.md describes the JSON.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/text/name_source.h"

namespace gpupeak::collector {

struct Module;

/// One function at an address, as symbols or debug information tell it. Names are not demangled.
struct DwarfFrame {
  std::string function;
  std::string file;
  int line = 0;  ///< 0: not known
  NameSource source = NameSource::kNone;
};

/// The file of symbols beside a log has the log's name and this.
inline constexpr const char* kSymbolsSuffix = ".symbols";

class SymbolTable {
 public:
  /// Nothing is known.
  SymbolTable() = default;
  /// `log_cookie` is that of the log at hand: modules without a build-id are trusted only if the
  /// table was made from this very log. Throws LogError for what is no such table.
  SymbolTable(std::string_view json, uint64_t log_cookie);

  void add(const Module& module, uint64_t address, std::vector<DwarfFrame> frames);
  /// Why the module's file gave no names where the table was made: kMissing, kOtherBuild.
  static constexpr std::string_view kMissing = "missing";
  static constexpr std::string_view kOtherBuild = "other build";
  void add_problem(const Module& module, std::string_view problem);
  /// Compact JSON.
  std::string json(uint64_t log_cookie) const;

  /// The function at an ELF address and those it is inlined into; nullptr if the table does not
  /// say.
  const std::vector<DwarfFrame>* find(const Module& module, uint64_t address) const;
  /// Whether it has functions of this module at all.
  bool knows(const Module& module) const { return modules_.contains(key(module)); }
  /// Empty: its file could be read, or the table does not say.
  std::string_view problem(const Module& module) const;
  bool empty() const { return modules_.empty(); }
  /// Made from the log at hand, so that all of its modules were looked for.
  bool is_of_this_log() const { return is_of_this_log_; }

 private:
  struct Key {
    std::string path;      ///< escaped; empty where there is a build-id
    std::string build_id;  ///< hexadecimal
    auto operator<=>(const Key&) const = default;
  };
  using Frames = std::unordered_map<uint64_t, std::vector<DwarfFrame>>;
  struct ModuleFrames {
    std::string path;  ///< for those who read the file
    std::string problem;
    Frames frames;
  };

  static Key key(const Module& module);

  std::map<Key, ModuleFrames> modules_;
  bool is_of_this_log_ = false;
};

}  // namespace gpupeak::collector
