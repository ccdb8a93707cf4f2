// The slots of all loaded libraries that lead to our hooks in a program that ran before this
// library came (`gpupeak attach`): those through which they call functions by name, and what they
// hold of the driver's functions in their data. Of a slot that is neither, or that leads elsewhere,
// nothing is changed. By one thread at a time; takes the loader's lock.
#pragma once

#include <cstddef>

#include "hooks/adapters.h"

namespace gpupeak::preload {

/// Makes room. False: there is no memory. Before hook_all_slots(), once.
bool prepare_slots();
/// Frameworks' arenas, too. Libraries that are just being loaded are left out until they are asked
/// for functions.
void hook_all_slots();
/// How many lead to us now.
size_t hooked_slots();
/// When this returns all libraries that were listed before are loaded whole. False: nobody to ask.
bool wait_until_loaded();
/// Puts back what led there before; returns how many hold something else by now.
size_t put_back_slots();
/// Around a fork: it waits a while for whoever goes through the libraries, since the loader's lock
/// for that is copied as it is, and no child releases it.
void hold_slots_over_fork();
void release_slots_after_fork();
/// In a forked child, whose other threads are gone.
void reset_slots_in_child();
/// From dlsym: libraries that have come since, while slots are hooked.
void cover_libraries_loaded_since();
/// From dlsym: the arenas of a library whose entry the program asks for.
void cover_library_asked_for(Dlsym real, void* handle, const char* name);

}  // namespace gpupeak::preload
