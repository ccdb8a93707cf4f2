// Where functions' names are looked for, as the options of all reading verbs choose.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace gpupeak::collector {

class ModuleCache;

struct SymbolSearch {
  bool files = true;                    ///< false: frames are only modules and offsets
  std::string sysroot;                  ///< put before all paths of the log; empty: nothing is
  std::vector<std::string> debug_dirs;  ///< folders like /usr/lib/debug
  std::shared_ptr<ModuleCache> cache;   ///< shared by several logs; may be nullptr
  bool keep = true;                     ///< keep names in the user's cache for the next report
};

}  // namespace gpupeak::collector
