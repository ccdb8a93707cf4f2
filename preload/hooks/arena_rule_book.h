// The rules about arenas that apply in this process, and what each has replaced. HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "hooks/arena_tables.h"
#include "track/arena_objects.h"

namespace gpupeak::preload {

// Reads the [[pool]] parts of a rule file (docs/rules.md), which say which functions of which
// library hand out an arena's memory. HOOK-SAFE: allocates nothing.
//
// in    [[pool]]
//       name = "C pool"
//       library = "libcpool.so*"
//       allocate = "cpool_alloc"
//       …
// out   an ArenaRule: name "C pool", library "libcpool.so*", allocate_name "cpool_alloc" …
//
// This is a reader of our own, for two reasons: GPUPEAK_POOL_RULES also works with a bare
// LD_PRELOAD, where no other process can read the file first; and a TOML library allocates. It
// reads lines of `key = number` and `key = "text"`, which is all that these parts need, and passes
// over all other parts. `gpupeak run --pool-rules` checks the file by toml++ before the program
// starts.

struct ArenaRule {
  static constexpr uint32_t kNone = UINT32_MAX;

  Text<48> name;
  Text<96> library;  ///< a glob for the file's name
  Text<512> type;    ///< the class, as type_info::name() has it; empty: exported functions
  uint32_t functions = kNone;                                   ///< number of virtual functions
  uint32_t allocate = kNone, free = kNone, destructor = kNone;  ///< slots of virtual functions
  Text<256> allocate_name, free_name;                           ///< exported functions
  uint32_t size = kNone, address = kNone, given = kNone, arena = kNone;  ///< numbers of arguments
};

/// Reads the file's next rule from `at` on, and moves `at` behind it. False: there is none, or it
/// cannot be used; in the latter case `problem` says what is wrong and in which line.
bool next_arena_rule(std::string_view file, size_t& at, ArenaRule& rule, Text<256>& problem);

/// Whether `text` fits: `*` stands for any text, `?` for any one character.
bool fits_glob(std::string_view glob, std::string_view text);

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
