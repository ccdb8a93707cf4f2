// Keeps the symbols of modules that were read, for callers that read many logs of the same
// programs.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "collector/symbols/module_symbols.h"

namespace gpupeak::collector {

class ModuleCache {
 public:
  /// The module's symbols. All calls must have the same search and rules. Several threads may call
  /// it.
  std::shared_ptr<ModuleSymbols> of(const Module& module, const SymbolSearch& search,
                                    const NameRules* rules);

 private:
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::shared_ptr<ModuleSymbols>> modules_;
};

}  // namespace gpupeak::collector
