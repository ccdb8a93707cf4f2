// Finds the debug files that a module names, in place of libdwfl's own search, which opens whatever
// has their names: here they are regular files of a bounded size, and those that are meant, by
// build-id or checksum. ModuleSymbols passes it on to libdwfl.
#pragma once

#include <elfutils/libdwfl.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "collector/files/file_state.h"

namespace gpupeak::collector {

/// What DEBUGINFOD_URLS names; empty: no server is asked.
std::string debug_servers();

/// The debug file of a build-id from the servers that DEBUGINFOD_URLS names, or empty. The library
/// is loaded only then; it keeps what it fetched in a cache of its own.
std::string debug_file_from_servers(std::string_view build_id);

class DebugFiles {
 public:
  /// `folders`: below them debug files lie by build-id and by their modules' paths.
  explicit DebugFiles(std::vector<std::string> folders) : folders_(std::move(folders)) {}

  /// libdwfl asks by this. Each module's user data is its DebugFiles.
  static int find(Dwfl_Module* module, void** user_data, const char* name, Dwarf_Addr base,
                  const char* file_name, const char* link, GElf_Word checksum, char** found);
  /// Whether the file that holds what several debug files have in common (dwz) is the one that is
  /// meant, or none is. If it is not, libdw would look for it by itself.
  bool has_common_file(Dwarf* dwarf) const;
  /// As the debug file names it.
  static std::string common_file(Dwarf* dwarf);
  /// Each file that was looked for, as it was then: what was found depends on them.
  const std::vector<FileState>& looked_for() const { return looked_for_; }

 private:
  int find(Dwfl_Module* module, const std::string& file_name, const char* link, GElf_Word checksum,
           std::string& found);

  std::vector<std::string> folders_;
  std::string common_build_id_;
  std::vector<FileState> looked_for_;
};

}  // namespace gpupeak::collector
