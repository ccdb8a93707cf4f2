// Arenas that rules name (docs/rules.md, [[pool]]): the rules that are built in, and those of the
// file that GPUPEAK_POOL_RULES names. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// Takes over what rules say of libraries that have come, if this is the first time that something
/// is asked of this handle of the loader's. Where the program itself would wait for the loader.
void take_over_rule_arenas(const void* handle);
/// Whether a rule is about an exported function of this name.
bool is_rule_arena_entry(const char* name);
/// What the program is to find in the place of what it has looked up by such a name.
void* rule_arena_entry_for(void* found);
/// At our end.
void put_back_rule_arenas();
/// After a dlclose.
void forget_unloaded_rule_arenas();
/// In a forked child: what was taken over stays so, and no more is looked for, since a lock of the
/// loader's may be held by a thread that is not there.
void leave_rule_arenas();

}  // namespace gpupeak::preload
