#include "collector/symbols/module_cache.h"

#include "collector/log/definitions.h"

namespace gpupeak::collector {

std::shared_ptr<ModuleSymbols> ModuleCache::of(const Module& module, const SymbolSearch& search,
                                               const NameRules* rules) {
  const std::lock_guard lock(mutex_);
  auto& symbols = modules_[{module.path, module.build_id}];
  if (!symbols) symbols = std::make_shared<ModuleSymbols>(module, search, rules);
  return symbols;
}

}  // namespace gpupeak::collector
