// Follows ONNX Runtime's arenas. All providers use one class. HOOK-SAFE, outside any HookScope.
#pragma once

namespace gpupeak::preload {

/// 23 for "1.23.2"; -1 if it is not a release 1.x, since nothing is known of others.
int ort_minor_version(const char* version);

/// Call it before the library makes its first arena. A second call for the same library does
/// nothing. `inside`: an address in the loaded library. `version`: as the library says.
void take_over_ort_arenas(const void* inside, const char* version);

// ONNX Runtime's Python package, for dlsym. Its module contains the library, and exports only the
// function that Python's import looks up. So its arenas are found from that function. HOOK-SAFE.

/// Whether this is the function by which Python imports the module.
bool is_ort_wheel_entry(const char* name);
/// Takes over the module's arenas. `entry`: that function, before its first call or later.
void take_over_ort_wheel(const void* entry);

}  // namespace gpupeak::preload
