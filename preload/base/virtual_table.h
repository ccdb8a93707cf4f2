// The virtual functions of a C++ class of a loaded library that exports nothing of it: type
// information stays even in stripped libraries. And how one of them is replaced.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

struct VirtualTable {
  uintptr_t* slots = nullptr;  ///< as an object's first word points to; nullptr: none, or several
  size_t count = 0;            ///< functions of the same library that follow each other
  const char* base = "";       ///< the type name of the one class that it is derived from
};

/// The virtual functions of the class with this type name ("N2ns5ClassE") in the library around
/// `inside`. Searches the part of its data that is read-only once relocated: some ms for a large
/// library. HOOK-SAFE: takes
/// the loader's lock, allocates nothing.
VirtualTable find_virtual_table(const void* inside, const char* type_name);

/// Puts `function` into a slot by one aligned store, its page made writable for that and read-only
/// again. False if the page does not allow it: nothing has changed then. HOOK-SAFE, by one thread
/// at a time, since slots share pages.
bool replace_slot(uintptr_t* slot, uintptr_t function);

}  // namespace gpupeak::preload
