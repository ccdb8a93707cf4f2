// What looks into frameworks' allocators: one row an adapter in adapters.cc, and here what the
// hooks ask all of them.
//
//   dlsym("GetPjrtApi")  → the row that wants this name says what the program gets: our entry, by
//                          which a plugin's arenas are found before it has made one
//   getenv               → the row whose variable it is says what a client of ours gets to hear
//   dlclose              → each row forgets the libraries that are gone
//   longjmp              → calls of an arena that the jump leaves are over
//   fork, in the child   → what may hold a lock of a thread that is not there is left alone
//   our end              → what was replaced is put back
//
// A new adapter is a row. A sub-allocator that a rule file can describe (docs/rules.md, [[pool]])
// is a rule and no code. HOOK-SAFE, outside any HookScope.
#pragma once

#include <cstdint>
#include <optional>

namespace gpupeak::preload {

using Dlsym = void* (*)(void*, const char*);

/// What a program is to get for dlsym(handle, name), if that is an adapter's business. `real`: the
/// real dlsym.
std::optional<void*> adapters_replace(Dlsym real, void* handle, const char* name);
/// What a program is to get for getenv(name), which has no value, if that is an adapter's business;
/// else nullptr.
const char* adapters_variable(const char* name);
/// When the program starts: what is loaded already.
void adapters_look();
// In a program that ran before us, which has the libraries' own functions and keeps them.

/// kWhole: libraries that are loaded now have run their constructors.
enum class Loaded : uint8_t { kWhole, kPerhapsInPart };
/// What is loaded already.
void adapters_take_over_loaded(Loaded how_far);
/// What the program asks for by dlsym(handle, name).
void adapters_take_over_asked_for(Dlsym real, void* handle, const char* name);
/// After a dlclose.
void forget_unloaded_adapters();
/// longjmp is about to make `target` the stack pointer.
void leave_adapters_for(uintptr_t target);
void reset_adapters_in_child();
/// At our end, and where the program is left.
void put_back_adapters();

}  // namespace gpupeak::preload
