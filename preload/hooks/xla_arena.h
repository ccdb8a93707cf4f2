// The arenas of XLA's plugins: tsl::BFCAllocator. HOOK-SAFE, outside any HookScope.
#pragma once

namespace gpupeak::preload {

/// `inside`: an address in the loaded plugin, whose C API is 0.`minor`. Before its first arena is
/// made; again for the same plugin it does nothing.
void take_over_xla_arenas(const void* inside, int minor);

}  // namespace gpupeak::preload
