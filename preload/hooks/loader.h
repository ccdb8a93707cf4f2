// What is done when libraries are unloaded, by dlclose or by the loader itself. HOOK-SAFE, outside
// any HookScope.
#pragma once

namespace gpupeak::preload {

/// What is known of libraries that are gone does not hold for what comes to lie there.
void forget_unloaded_libraries();

/// The dynamic loader frees memory, as it does when it has unmapped a library.
void loader_has_freed();

}  // namespace gpupeak::preload
