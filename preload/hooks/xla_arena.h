// Follows the arenas of XLA's plugins: tsl::BFCAllocator. HOOK-SAFE, outside any HookScope.
#pragma once

namespace gpupeak::preload {

/// Whether the plugin has arenas of this class. `inside`: an address in the loaded plugin.
bool has_xla_arenas(const void* inside);
/// Takes over the arenas of a plugin whose C API is 0.`minor`. Call it before the plugin makes its
/// first arena, or at an attach. A second call for the same plugin does nothing.
void take_over_xla_arenas(const void* inside, int minor);

}  // namespace gpupeak::preload
