// Our entry in place of PJRT's, the C API by which JAX and others reach XLA's plugins. For dlsym
// and dlclose. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Whether this is the function by which programs reach a plugin.
bool is_pjrt_entry(const char* name);
/// What a program's dlsym, which found `found`, is to return: our entry to the plugin of `found`.
void* pjrt_entry_for(void* found);
/// Takes over the arenas of a plugin that is in use already. `entry`: its entry function.
void take_over_loaded_pjrt(void* entry);
/// Call it after a dlclose: forgets plugins that are gone.
void forget_unloaded_pjrt();

}  // namespace gpupeak::preload
