// In an attached program (`gpupeak attach`), slots of all loaded libraries lead to our hooks. Slots
// are the places through which libraries call functions by name, and the places in their data that
// hold addresses of the driver's functions. Nothing else is changed, and no slot that leads
// elsewhere. Called by one thread at a time; takes the loader's lock.
#pragma once

#include "hooks/adapters.h"

namespace gpupeak::preload {

/// Around a fork. Waits a while for a thread that goes through the libraries: it holds the loader's
/// lock, which a child would get locked and nobody there would release.
void hold_slots_over_fork();
void release_slots_after_fork();
/// In a forked child, whose other threads are gone.
void reset_slots_in_child();
/// Called in dlsym, while slots are hooked: hooks libraries that were loaded since.
void cover_libraries_loaded_since();
/// Called in dlsym: takes over the arenas of a library whose entry the program looks up.
void cover_library_asked_for(Dlsym real, void* handle, const char* name);

}  // namespace gpupeak::preload
