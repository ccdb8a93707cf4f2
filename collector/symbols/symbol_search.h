// Where functions' names are looked for, as the options of all reading verbs choose.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace gpupeak::collector {

class ModuleCache;

struct SymbolSearch {
  bool files = true;                    ///< else frames are modules and offsets only
  std::string sysroot;                  ///< stands before all paths of the log; empty: none
  std::vector<std::string> debug_dirs;  ///< folders like /usr/lib/debug
  std::shared_ptr<ModuleCache> cache;   ///< of several logs; may be nullptr
  bool keep = true;                     ///< names for the next report, in the user's cache
};

}  // namespace gpupeak::collector
