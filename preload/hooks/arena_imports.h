// Makes slots of callers lead to an arena's thunks in place of its exported functions. HOOK-SAFE;
// called by one thread at a time.
#pragma once

#include <link.h>

#include <cstdint>

namespace gpupeak::preload {

/// Replaces the slots through which an object calls `name`, if they lead to `real`. False: there
/// are more slots than we have room for.
bool replace_imports(const dl_phdr_info& object, const char* name, uintptr_t real,
                     uintptr_t trampoline);
/// Puts back all slots that lead to `trampoline`.
void put_back_imports(uintptr_t trampoline);
/// Call it after a dlclose.
void forget_unloaded_imports();

}  // namespace gpupeak::preload
