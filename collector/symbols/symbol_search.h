// Where functions' names are looked for, as the options of all reading verbs choose.
#pragma once

#include <string>
#include <vector>

namespace gpupeak::collector {

struct SymbolSearch {
  bool files = true;                    ///< else frames are modules and offsets only
  std::string sysroot;                  ///< stands before all paths of the log; empty: none
  std::vector<std::string> debug_dirs;  ///< folders like /usr/lib/debug
};

}  // namespace gpupeak::collector
