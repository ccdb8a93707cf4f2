// Pools that rules name (docs/rules.md, [[pool]]): the rules that are built in, and those of the
// file that GPUPEAK_POOL_RULES names. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// Takes over what rules say of libraries that have been loaded since it was last called. Where the
/// program itself would wait for the loader.
void take_over_rule_pools();
/// Whether a rule is about an exported function of this name.
bool is_rule_pool_entry(const char* name);
/// What the program is to find in the place of what it has looked up by such a name.
void* rule_pool_entry_for(void* found);
/// At our end.
void put_back_rule_pools();
/// After a dlclose.
void forget_unloaded_rule_pools();
/// In a forked child.
void reset_rule_pools();

}  // namespace gpupeak::preload
