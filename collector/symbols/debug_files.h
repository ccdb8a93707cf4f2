// Finds the debug files that a module names. It replaces libdwfl's own search, which opens anything
// with such a name. Here a file counts only if it is a regular file of bounded size with the right
// build-id or checksum. ModuleSymbols passes it on to libdwfl.
#pragma once

#include <elfutils/libdwfl.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/files/file_state.h"

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

}  // namespace gpupeak::collector
