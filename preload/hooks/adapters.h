// Adapters look into frameworks' allocators. Each adapter is a row in adapters.cc. Here are the
// questions that hooks ask all of them.
//
//   dlsym("GetPjrtApi")  → the adapter that wants this name says what the program gets: our entry,
//                          by which a plugin's arenas are found before it has made one
//   getenv               → the adapter that knows the variable says what its client gets
//   dlclose              → each adapter forgets the libraries that are gone
//   longjmp              → an arena's calls that the jump leaves are over
//   fork, in the child   → adapters stop what may need a lock that a thread of the parent held
//   our end              → each adapter puts back what it has replaced
//
// A new adapter is a row. A sub-allocator that a rule file can describe (docs/rules.md, [[pool]])
// needs a rule and no code. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <optional>

namespace gpupeak::preload {

using Dlsym = void* (*)(void*, const char*);

/// What a program is to get for dlsym(handle, name); nothing if no adapter wants the name. `real`:
/// the real dlsym.
std::optional<void*> adapters_replace(Dlsym real, void* handle, const char* name);
/// What a program is to get for getenv(name), a variable without a value; nullptr: no adapter knows
/// the variable.
const char* adapters_variable(const char* name);
/// Looks at the libraries that are loaded when the program starts.
void adapters_look();

// The next two are for an attached program, which has the libraries' own functions and keeps them.

/// kWhole: libraries that are loaded now have run their constructors.
enum class Loaded : uint8_t { kWhole, kPerhapsInPart };
/// Takes over arenas of the libraries that are loaded already.
void adapters_take_over_loaded(Loaded how_far);
/// Takes over arenas of the library whose function the program asks for by dlsym(handle, name).
void adapters_take_over_asked_for(Dlsym real, void* handle, const char* name);
/// Call it after a dlclose.
void forget_unloaded_adapters();
/// longjmp is about to make `target` the stack pointer.
void leave_adapters_for(uintptr_t target);
void reset_adapters_in_child();
/// At our end, and at a detach.
void put_back_adapters();

}  // namespace gpupeak::preload
