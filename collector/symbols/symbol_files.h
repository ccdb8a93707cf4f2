// Lists the files from which names of a module may come.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/symbols/symbol_search.h"

namespace gpupeak::collector {

inline constexpr std::string_view kDefaultDebugDir = "/usr/lib/debug";

/// Where a debug file with this build-id lies below a folder of debug files:
/// "/.build-id/ab/cdef….debug".
std::string build_id_path(std::string_view build_id);

/// The file itself, then debug files that have its symbols, too. They need not exist.
std::vector<std::string> symbol_files(const Module& module, const SymbolSearch& search);

/// These, and the other places where libdwfl looks for a file's debug information by its usual
/// names: files and folders. Each of them changes when other names can be found.
std::vector<std::string> watched_symbol_files(const Module& module, const SymbolSearch& search);

}  // namespace gpupeak::collector
