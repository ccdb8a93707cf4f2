// Functions and lines that were looked up on the machine that has the binaries, to be used on
// others. `gpupeak bundle` writes them beside a log, and a bundle carries them. LogReader reads
// them, Symbolizer asks them first. docs/symbols.md describes the JSON.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/text/function_names.h"
#include "gpupeak/log_format.h"

namespace gpupeak::collector {

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

// Names of functions that `gpupeak run` adds to a log when the run has ended, for programs and
// libraries that may change later. They are a table as `gpupeak bundle` writes it
// (SymbolTable), packed, in a chunk behind all others. Symbolizer asks it where a module's file
// is no longer the one that ran. `run` writes the chunk, LogReader reads it.

/// The kind of the chunk; older readers pass over it.
inline constexpr uint32_t kNamesChunk = GPUPEAK_CHUNK_NAMES;
/// What such a table has as a module's problem: its names were kept, but its file comes first while
/// it is there.
inline constexpr std::string_view kKeptAtEnd = "kept";
/// The same; there was time and room only for some of its addresses.
inline constexpr std::string_view kKeptInPart = "kept in part";
/// Its file was gone before the run had ended: the program itself has logged which functions it
/// exports.
inline constexpr std::string_view kOnlyExported = "exported functions alone";
/// None of its names were kept; that does not say that it has none.
inline constexpr std::string_view kNotKept = "not kept";

/// Whether the system's packages own the file at `path`. Such a file does not change while somebody
/// works on a program, and other machines have it from the same packages.
bool is_of_system(std::string_view path);
/// Whether the table has names of this module that a run has kept, all or some of them.
bool has_kept(const SymbolTable& table, const Module& module);
/// Whether the table is one that a run kept, and not one that somebody made with `gpupeak
/// symbolize`.
bool is_kept_table(const SymbolTable& table, const Definitions& definitions);

/// Writes the names into a log whose process has ended, and returns the chunk's offset; 0: it could
/// not. `instead_of`: the offset that an earlier call returned, which is written over; 0: there is
/// none.
uint64_t write_kept_names(const std::string& log, const SymbolTable& names, uint64_t instead_of);
/// Unpacks what lies behind the chunk's header and returns the table's text. Throws LogError.
std::string unpack_kept_names(std::span<const uint8_t> chunk);

// Names of code that the program made as it ran (JavaScript, Java, C#): no file has them, but many
// a runtime can write them for Linux perf into /tmp/perf-PID.map, a line for each piece of code, or
// into a jitdump (jit-PID.dump), also with lines. The log's addresses that lie in no module are
// looked for in both, and in what the program has registered for debuggers (GDB's JIT interface),
// which is in the log.
//
//   7f5dbafe4980 378 JS:~decodeFrame /srv/t.js:4:21   →  decodeFrame   /srv/t.js:4

/// Adds the names of addresses without a module, as names of module 0. Leaves a file out if it is
/// no regular one, another user's, writable by all, larger than 256 MiB, or was not written while
/// the process ran: process ids are used again.
void read_code_names(const std::string& log, const gpupeak_file_header& header,
                     const gpupeak_counters_page& counters, const Definitions& definitions,
                     SymbolTable& symbols);

}  // namespace gpupeak::collector
