// ONNX Runtime's arenas, one class for every provider, which its library does not export: their
// virtual functions are replaced where the library's release, the classes' names, bases and
// functions are those that are known, and the arena's own statistics bear it out; else all stays
// as it was. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// `inside`: an address in the loaded library, of release 1.`minor`. Before its first arena is
/// made; again for the same library it does nothing.
void take_over_ort_arenas(const void* inside, int minor, const char* version);
/// All tables as they were: at our end.
void put_back_ort_arenas();
/// longjmp is about to make `target` the stack pointer: the calls that this leaves are over.
void leave_ort_arena_calls_for(uintptr_t target);
/// After a dlclose.
void forget_unloaded_ort_arenas();

}  // namespace gpupeak::preload
