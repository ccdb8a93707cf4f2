// The slots of callers that lead to an arena's thunks in place of its exported functions.
// HOOK-SAFE; by one thread at a time.
#pragma once

#include <link.h>

#include <cstdint>

namespace gpupeak::preload {

/// Of one object, the slots through which it calls `name` where that is `real`. False: there are
/// more than we have room for.
bool replace_imports(const dl_phdr_info& object, const char* name, uintptr_t real,
                     uintptr_t trampoline);
/// All that lead to `trampoline`, as they were.
void put_back_imports(uintptr_t trampoline);
/// After a dlclose.
void forget_unloaded_imports();

}  // namespace gpupeak::preload
