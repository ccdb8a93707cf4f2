// ONNX Runtime's arenas, one class for every provider. HOOK-SAFE, outside any HookScope.
#pragma once

namespace gpupeak::preload {

/// 23 for "1.23.2"; -1 for what is not release 1.x, of which nothing is known.
int ort_minor_version(const char* version);

/// `inside`: an address in the loaded library, which calls itself `version`. Before its first arena
/// is made; again for the same library it does nothing.
void take_over_ort_arenas(const void* inside, const char* version);

}  // namespace gpupeak::preload
