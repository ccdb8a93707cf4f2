// Our entry in place of PJRT's, the C API by which JAX and others reach XLA's plugins. For dlsym
// and dlclose. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

// Follows the arenas of XLA's plugins: tsl::BFCAllocator. HOOK-SAFE, outside any HookScope.

/// Whether the plugin has arenas of this class. `inside`: an address in the loaded plugin.
bool has_xla_arenas(const void* inside);
/// Takes over the arenas of a plugin whose C API is 0.`minor`. Call it before the plugin makes its
/// first arena, or at an attach. A second call for the same plugin does nothing.
void take_over_xla_arenas(const void* inside, int minor);

/// Whether this is the function by which programs reach a plugin.
bool is_pjrt_entry(const char* name);
/// What a program's dlsym, which found `found`, is to return: our entry to the plugin of `found`.
void* pjrt_entry_for(void* found);
/// Takes over the arenas of a plugin that is in use already. `entry`: its entry function.
void take_over_loaded_pjrt(void* entry);
/// Call it after a dlclose: forgets plugins that are gone.
void forget_unloaded_pjrt();

}  // namespace gpupeak::preload
