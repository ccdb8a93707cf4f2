// The rules about pools that apply in this process, and what was done by each. HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/pool_rule_text.h"
#include "hooks/pool_tables.h"
#include "track/pool_objects.h"

namespace gpupeak::preload {

/// A rule, and what was done by it.
struct PoolRuleState {
  static constexpr size_t kMostLibraries = 4;

  PoolRule says;
  bool built_in = false;
  PoolMaker maker{};
  PoolClass of{};
  uintptr_t libraries[kMostLibraries] = {};  ///< an address in each that was looked at; 0: none
  uintptr_t real[kPoolFunctions] = {};       ///< of exported functions
  std::atomic<const uintptr_t*> stand_in{nullptr};  ///< for these

  bool exported() const { return says.type.view().empty(); }
};
constexpr size_t kMostPoolRules = 16;
extern PoolRuleState g_pool_rules[kMostPoolRules];
extern size_t g_pool_rule_count;

/// Those of the user, then those that are built in: of two for one class the first one counts. What
/// cannot be read is said in the log. By one thread, once.
void read_pool_rules();

}  // namespace gpupeak::preload
