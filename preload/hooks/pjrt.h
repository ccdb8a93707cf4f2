// PJRT, the C API by which JAX and others reach XLA's plugins, for dlsym and dlclose. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Whether this is the function by which programs reach a plugin.
bool is_pjrt_entry(const char* name);
/// What a program's dlsym = `found` should give: our entry to the plugin that `found` belongs to.
void* pjrt_entry_for(void* found);
/// Of a plugin that is loaded and in use: its arenas. `entry`: its function.
void take_over_loaded_pjrt(void* entry);
/// After a dlclose: forgets plugins that are gone.
void forget_unloaded_pjrt();

}  // namespace gpupeak::preload
