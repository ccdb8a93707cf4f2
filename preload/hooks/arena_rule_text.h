// Reads the [[pool]] parts of a rule file (docs/rules.md): which functions of which library hand
// out memory of an arena. HOOK-SAFE: allocates nothing.
//
// in    [[pool]]
//       name = "C pool"
//       library = "libcpool.so*"
//       allocate = "cpool_alloc"
//       …
// out   an ArenaRule: name "C pool", library "libcpool.so*", allocate_name "cpool_alloc" …
//
// A reader of our own: GPUPEAK_POOL_RULES names a rule file beside a bare LD_PRELOAD too, where no
// other process can read it first, and a TOML library allocates. It reads lines of `key = number`
// and `key = "text"`, all that these parts need, and passes over all other parts. `gpupeak run
// --pool-rules` checks the file by toml++ before the program starts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/text.h"

namespace gpupeak::preload {

struct ArenaRule {
  static constexpr uint32_t kNone = UINT32_MAX;

  Text<48> name;
  Text<96> library;  ///< glob of the file's name
  Text<512> type;    ///< of the class, as type_info::name() has it; empty: exported functions
  uint32_t functions = kNone;                                   ///< virtual ones that the class has
  uint32_t allocate = kNone, free = kNone, destructor = kNone;  ///< slots
  Text<256> allocate_name, free_name;                           ///< exported functions
  uint32_t size = kNone, address = kNone, given = kNone, arena = kNone;  ///< arguments
};

/// The file's next rule, from `at` on; false: there is none, or it cannot be used. `at` goes on
/// behind it, and `problem` then says what is wrong and in which line.
bool next_arena_rule(std::string_view file, size_t& at, ArenaRule& rule, Text<256>& problem);

/// `*` stands for any text, `?` for a character.
bool fits_glob(std::string_view glob, std::string_view text);

}  // namespace gpupeak::preload
