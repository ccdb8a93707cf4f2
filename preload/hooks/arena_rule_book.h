// The rules about arenas that apply in this process, and what each has replaced. HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "hooks/arena_rule_text.h"
#include "hooks/arena_tables.h"
#include "track/arena_objects.h"

namespace gpupeak::preload {

/// A rule, and what it has replaced.
struct ArenaRuleState {
  static constexpr size_t kMostLibraries = 4;

  ArenaRule says;
  bool built_in = false;
  ArenaMaker maker{};
  ArenaClass of{};
  uintptr_t libraries[kMostLibraries] = {};           ///< an address in each known library; 0: none
  uintptr_t real[kArenaFunctions] = {};               ///< exported functions
  std::atomic<const uintptr_t*> trampoline{nullptr};  ///< trampolines for `real`; nullptr: none

  bool exported() const { return says.type.view().empty(); }
};
constexpr size_t kMostArenaRules = 16;
extern ArenaRuleState g_arena_rules[kMostArenaRules];
extern size_t g_arena_rule_count;

/// Reads the user's rules, then the built-in ones: of two rules for one class the first counts. The
/// log says what cannot be read. Called once, by one thread.
void read_arena_rules();

}  // namespace gpupeak::preload
