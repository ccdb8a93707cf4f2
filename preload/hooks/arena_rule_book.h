// The rules about arenas that apply in this process, and what has been replaced by each of them.
// HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/arena_rule_text.h"
#include "hooks/arena_tables.h"
#include "track/arena_objects.h"

namespace gpupeak::preload {

/// A rule, and what was done by it.
struct ArenaRuleState {
  static constexpr size_t kMostLibraries = 4;

  ArenaRule says;
  bool built_in = false;
  ArenaMaker maker{};
  ArenaClass of{};
  uintptr_t libraries[kMostLibraries] = {};  ///< an address in each that was looked at; 0: none
  uintptr_t real[kArenaFunctions] = {};      ///< of exported functions
  std::atomic<const uintptr_t*> trampoline{nullptr};  ///< for these

  bool exported() const { return says.type.view().empty(); }
};
constexpr size_t kMostArenaRules = 16;
extern ArenaRuleState g_arena_rules[kMostArenaRules];
extern size_t g_arena_rule_count;

/// Those of the user, then those that are built in: of two for one class the first one counts. What
/// cannot be read is said in the log. By one thread, once.
void read_arena_rules();

}  // namespace gpupeak::preload
