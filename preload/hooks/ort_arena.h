// Follows ONNX Runtime's arenas. All providers use one class. HOOK-SAFE, outside any HookScope.
#pragma once

namespace gpupeak::preload {

/// 23 for "1.23.2"; -1 if it is not a release 1.x, since nothing is known of others.
int ort_minor_version(const char* version);

/// Call it before the library makes its first arena. A second call for the same library does
/// nothing. `inside`: an address in the loaded library. `version`: as the library says.
void take_over_ort_arenas(const void* inside, const char* version);

}  // namespace gpupeak::preload
