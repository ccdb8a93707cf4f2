// ONNX Runtime's Python package, for dlsym. Its module contains the library, and exports only the
// function that Python's import looks up. So its arenas are found from that function. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Whether this is the function by which Python imports the module.
bool is_ort_wheel_entry(const char* name);
/// Takes over the module's arenas. `entry`: that function, before its first call or later.
void take_over_ort_wheel(const void* entry);

}  // namespace gpupeak::preload
