// Our entry in place of ONNX Runtime's, for dlsym and dlclose. HOOK-SAFE.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

// ONNX Runtime's own profile, through its C API. Finds out whether a session has one, and makes a
// copy of the program's options that asks for one (--ort-nodes). HOOK-SAFE, outside any HookScope.

using OrtWord = uintptr_t;

/// Options with which session `number` writes a profile; 0: use the program's own `options`, which
/// may be 0. `minor`: the minor version of the release 1.x.
OrtWord ort_options_with_profile(const OrtWord* api, int minor, OrtWord options, uint64_t number);
/// Releases these options, after the session was made with them, or not. `status`: what that call
/// returned; 0: success.
void ort_forget_options(const OrtWord* api, OrtWord options, OrtWord status);

/// A session was made: notes its profile, if it has one. `called_ns`: CLOCK_MONOTONIC before that.
void ort_note_profile(const OrtWord* api, int minor, const void* session, uint64_t number,
                      uint64_t called_ns);

/// Whether this is the function by which programs reach ONNX Runtime.
bool is_ort_entry(const char* name);
/// What a program's dlsym, which found `found`, is to return: our entry to the library of `found`.
void* ort_entry_for(void* found);
/// Takes over the arenas of a library that is in use already. `entry`: its entry function.
void take_over_loaded_ort(void* entry);
/// Call it after a dlclose: forgets libraries that are gone.
void forget_unloaded_ort();

}  // namespace gpupeak::preload
