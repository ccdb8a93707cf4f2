// Called when libraries are unloaded, by dlclose or by the loader itself. HOOK-SAFE, outside any
// HookScope.
#pragma once

namespace gpupeak::preload {

/// Forgets libraries that are gone: others may be loaded at their addresses.
void forget_unloaded_libraries();

/// The dynamic loader frees memory, as it does when it has unmapped a library.
void loader_has_freed();

}  // namespace gpupeak::preload
