// Our entry in place of ONNX Runtime's, for dlsym and dlclose. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Whether this is the function by which programs reach ONNX Runtime.
bool is_ort_entry(const char* name);
/// What a program's dlsym, which found `found`, is to return: our entry to the library of `found`.
void* ort_entry_for(void* found);
/// Takes over the arenas of a library that is in use already. `entry`: its entry function.
void take_over_loaded_ort(void* entry);
/// Call it after a dlclose: forgets libraries that are gone.
void forget_unloaded_ort();

}  // namespace gpupeak::preload
