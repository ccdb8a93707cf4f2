// What process.cc offers to malloc's hooks.
#pragma once

namespace gpupeak::preload {

/// The dynamic loader frees memory, as it does when it has unmapped a library. HOOK-SAFE, outside
/// any HookScope.
void loader_has_freed();

}  // namespace gpupeak::preload
