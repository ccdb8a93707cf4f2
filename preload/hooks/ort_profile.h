// ONNX Runtime's own profile, through its C API: whether a session has one, and a copy of the
// program's options that asks for one (--ort-nodes). HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

using OrtWord = uintptr_t;

/// The options to make session `number` with, so that it writes a profile; 0: the program's own.
/// `options` may be 0. `minor`: of the release 1.x.
OrtWord ort_options_with_profile(const OrtWord* api, int minor, OrtWord options, uint64_t number);
/// The session was made with them, or not: `status` is what came of it, 0 if all went well.
void ort_forget_options(const OrtWord* api, OrtWord options, OrtWord status);

/// A session was made: notes its profile, if it has one. `called_ns`: CLOCK_MONOTONIC before.
void ort_note_profile(const OrtWord* api, int minor, const void* session, uint64_t number,
                      uint64_t called_ns);

}  // namespace gpupeak::preload
