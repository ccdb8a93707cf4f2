// ONNX Runtime's Python package, for dlsym. Its module has the library within itself and exports
// nothing but what Python's import looks up, so its arenas are found from there. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Whether this is the function by which Python imports the module.
bool is_ort_wheel_entry(const char* name);
/// `entry`: that function, which has not been called yet.
void take_over_ort_wheel(const void* entry);

}  // namespace gpupeak::preload
