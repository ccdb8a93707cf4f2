// ONNX Runtime's arenas, one class for every provider. HOOK-SAFE, outside any HookScope.
#pragma once

namespace gpupeak::preload {

/// `inside`: an address in the loaded library, of release 1.`minor`. Before its first arena is
/// made; again for the same library it does nothing.
void take_over_ort_arenas(const void* inside, int minor, const char* version);

}  // namespace gpupeak::preload
