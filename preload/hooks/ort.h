// ONNX Runtime's entry point, for dlsym and dlclose. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Whether this is the function by which programs reach ONNX Runtime.
bool is_ort_entry(const char* name);
/// What a program's dlsym = `found` should give: our entry to the library that `found` belongs to.
void* ort_entry_for(void* found);
/// Of a library that is loaded and in use: its arenas. `entry`: its function.
void take_over_loaded_ort(void* entry);
/// After a dlclose: forgets libraries that are gone.
void forget_unloaded_ort();

}  // namespace gpupeak::preload
