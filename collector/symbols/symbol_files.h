// The files that names of a module may come from.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collector/log/definitions.h"
#include "collector/symbols/symbol_search.h"

namespace gpupeak::collector {

inline constexpr std::string_view kDefaultDebugDir = "/usr/lib/debug";

/// The file itself, then debug files that hold its symbols as well. They need not be there.
std::vector<std::string> symbol_files(const Module& module, const SymbolSearch& search);

/// These, and where libdwfl looks for more of a file by the names that debug files usually have:
/// files and folders, each of which changes when other names can be found.
std::vector<std::string> watched_symbol_files(const Module& module, const SymbolSearch& search);

}  // namespace gpupeak::collector
