// Finds the debug files that a module names. It replaces libdwfl's own search, which opens anything
// with such a name. Here a file counts only if it is a regular file of bounded size with the right
// build-id or checksum. ModuleSymbols passes it on to libdwfl.
#pragma once

#include <elfutils/libdwfl.h>
#include <sys/stat.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/files/regular_file.h"
#include "collector/log/definitions.h"

namespace gpupeak::collector {

/// The servers that DEBUGINFOD_URLS names; empty: no server is asked.
std::string debug_servers();

/// The debug file of a build-id, from the servers that DEBUGINFOD_URLS names; empty: none has it.
/// libdebuginfod is loaded only for this. It keeps what it fetched in a cache of its own.
std::string debug_file_from_servers(std::string_view build_id);

class DebugFiles {
 public:
  /// `folders`: debug files lie below them by build-id and by their modules' paths.
  explicit DebugFiles(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  /// libdwfl calls this to find a debug file. `user_data` is the module's DebugFiles.
  static int find(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base,
                  const char* file_name, const char* link, GElf_Word checksum, char** found);
  /// Whether the common file (dwz) of several debug files is the right one, or the debug file names
  /// none. If it is not the right one, libdw would look for it by itself.
  bool has_common_file(Dwarf* dwarf) const;
  /// The path of the common file, as the debug file names it.
  static std::string common_file(Dwarf* dwarf);
  /// Each file that was looked for, as it was then. What was found depends on these files.
  const std::vector<FileState>& looked_for() const { return looked_for_; }

 private:
  int find(Dwfl_Module* module, const std::string& file_name, const char* link, GElf_Word checksum,
           std::string& found);

  std::vector<std::string> folders_;
  std::string common_build_id_;
  std::vector<FileState> looked_for_;
};

// Where functions' names are looked for, as the options of all reading verbs choose.
class ModuleCache;

struct SymbolSearch {
  bool files = true;                    ///< false: frames are only modules and offsets
  std::string sysroot;                  ///< put before all paths of the log; empty: nothing is
  std::vector<std::string> debug_dirs;  ///< folders like /usr/lib/debug
  std::shared_ptr<ModuleCache> cache;   ///< shared by several logs; may be nullptr
  bool keep = true;                     ///< keep names in the user's cache for the next report
  /// Files that nothing leads to any more, "/proc/self/fd/3", by path. There are several if the
  /// path had several; none if the file has been written over.
  std::map<std::string, std::vector<std::string>> opened;

  /// Finds these by their build-ids, too. Reads the files.
  void add_build_ids();
  /// Those that may be the module's; nullptr: what is at its path is what ran.
  const std::vector<std::string>* opened_for(const Module& module) const;
};

/// What the kernel puts behind the path of a file that has none any more, or never had one.
inline constexpr std::string_view kDeleted = " (deleted)";
inline std::string without_deleted(const std::string& path) {
  return path.ends_with(kDeleted) ? path.substr(0, path.size() - kDeleted.size()) : path;
}

// Lists the files from which names of a module may come.

inline constexpr std::string_view kDefaultDebugDir = "/usr/lib/debug";

/// Where a debug file with this build-id lies below a folder of debug files:
/// "/.build-id/ab/cdef….debug".
std::string build_id_path(std::string_view build_id);

/// The folders of debug files: those that the search names, then the system's.
std::vector<std::string> debug_folders(const SymbolSearch& search);

/// The file itself, then debug files that have its symbols, too. They need not exist. Of a module
/// without a build-id whose file is another one by now, none but the file that ran.
std::vector<std::string> symbol_files(const Module& module, const SymbolSearch& search);

// Reads the version of a library that is a module of a Python package: the library's own symbols
// may not tell it. ModuleSymbols asks for it.

/// The value of `__version__ = "1.29.0"` in the __init__.py of the outermost package around the
/// module's file; empty: it has none.
std::string package_version(const std::string& module_path);

// Opens a library or debug file for libdw. libdw unpacks without a bound: whole files that are
// packed (it takes them for kernels), compressed sections, the packed table of symbols. So the
// unpacked size is checked here. Sections packed by zstd are unpacked here.

/// ELFCOMPRESS_ZLIB, and ELFCOMPRESS_ZSTD, which elf.h of glibc 2.36 lacks.
inline constexpr uint32_t kPackedByZlib = 1, kPackedByZstd = 2;

/// Opens an ELF file of bounded size, also when unpacked. On failure the descriptor is empty and
/// errno is set: ENXIO if it is no ELF file, EFBIG if it is too large. `status` is what fstat says.
Descriptor open_elf(const std::string& path, struct stat& status);

}  // namespace gpupeak::collector
