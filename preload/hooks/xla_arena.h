// The arenas of XLA's plugins: tsl::BFCAllocator. HOOK-SAFE, outside any HookScope.
#pragma once

namespace gpupeak::preload {

/// `inside`: an address in the loaded plugin.
bool has_xla_arenas(const void* inside);
/// The plugin's C API is 0.`minor`. Before its first arena is made, or by an attach; again for the
/// same plugin it does nothing.
void take_over_xla_arenas(const void* inside, int minor);

}  // namespace gpupeak::preload
