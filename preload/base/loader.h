// Libraries that we ask for at run time, since we are linked to libc alone.
#pragma once

#include <cstdint>

namespace gpupeak::preload {

/// dlopen(name, RTLD_NOW | RTLD_LOCAL); nullptr if there is no such library. Local, so that none of
/// its symbols takes the place of one of the program's. Takes the loader's lock and allocates:
/// never call it from within an allocator hook.
void* load_library(const char* name);

/// Finds the lock of the loader's list. Called at the process's start, by its one thread.
void find_loader_lock();
/// Call it in a forked child before it asks the loader: looks whether a thread of the parent had
/// the lock of the loader's list. The C library's fork does not release that lock. If so, we go
/// through the list without it (base/own_libc.cc), and load no library.
void look_whether_loader_is_held();
bool is_loader_held_for_good();

/// A function of a library that load_library gave; nullptr if it does not have it.
void* find_symbol(void* library, const char* name);

/// Whether the loader is removing libraries now, by its state for debuggers. Takes no lock.
bool loader_is_removing();

/// Whether the loader has loaded the code at `ip`, by its lock-free answer; glibc before 2.35 has
/// none.
enum class IsLoaded { kNo, kYes, kNotKnown };
IsLoaded loader_has_code(uintptr_t ip);

template <typename Function>
bool find_symbol(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(find_symbol(library, name));
  return function != nullptr;
}

}  // namespace gpupeak::preload
