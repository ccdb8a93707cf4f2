// Follows arenas that rules name (docs/rules.md, [[pool]]): the built-in rules, and the rules of
// the file that GPUPEAK_POOL_RULES names. HOOK-SAFE, outside any HookScope.
#pragma once

#include <link.h>

#include <cstdint>

namespace gpupeak::preload {

// Makes slots of callers lead to an arena's thunks in place of its exported functions. HOOK-SAFE;
// called by one thread at a time.

/// Replaces the slots through which an object calls `name`, if they lead to `real`. False: there
/// are more slots than we have room for.
bool replace_imports(const dl_phdr_info& object, const char* name, uintptr_t real,
                     uintptr_t trampoline);
/// Puts back all slots that lead to `trampoline`.
void put_back_imports(uintptr_t trampoline);
/// Call it after a dlclose.
void forget_unloaded_imports();

/// Takes over the arenas of newly loaded libraries, if this is the first look-up with this handle
/// of the loader's. It waits for the loader, so it is called only where the program itself would.
void take_over_rule_arenas(const void* handle);
/// Whether a rule is about an exported function of this name.
bool is_rule_arena_entry(const char* name);
/// What the program is to get in place of `found`, which it has looked up by such a name.
void* rule_arena_entry_for(void* found);
/// At our end.
void put_back_rule_arenas();
/// Call it after a dlclose.
void forget_unloaded_rule_arenas();
/// In a forked child: replaced functions stay replaced, and no more libraries are looked at, since
/// a thread of the parent may have held a lock of the loader's.
void leave_rule_arenas();

}  // namespace gpupeak::preload
