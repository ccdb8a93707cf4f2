// The slots through which a loaded object calls a function of another object, or an exported one of
// its own: those that the loader has filled in, or fills in at the first call, and tables of
// functions in the object's data. HOOK-SAFE.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "base/compiler.h"

namespace gpupeak::preload {

/// Where an object has the address of a function that it calls.
struct ImportSlot {
  uintptr_t* at;
  bool read_only;  ///< the loader has made its page read-only after filling it in
  bool bound;      ///< it is filled in; if not, the first call does it
};

/// Whether calls through the slot of this name come to `function`. A slot that is not filled in yet
/// leads to what the loader would find.
bool leads_to(const ImportSlot& slot, const char* name, uintptr_t function);

/// A slot that was changed.
struct HookedSlot {
  uintptr_t* at = nullptr;
  uintptr_t hook = 0, was = 0;
  bool read_only = false;
  uint32_t number = 0;  ///< a later one may be at the same address, of another library
  /// Changes it if it holds `from`. The program may write a table of functions itself, even at this
  /// moment.
  bool write(uintptr_t from, uintptr_t to) const;
};

/// Slots that were changed, in memory of the owner's.
struct HookedSlots {
  HookedSlot* slots = nullptr;
  size_t most = 0, count = 0;
  uint32_t next_number = 1;

  /// Changes one more. False: there is no room for it.
  bool hook(const ImportSlot& slot, uintptr_t hook);
  void forget_unloaded();
};

/// Calls `visit(what, slot)` for each slot of one object that leads to a wanted name. `wants` says
/// what a name is; 0: it is not wanted. A pointer that the program has stored itself is not among
/// the slots.
void for_each_import(const dl_phdr_info& object, FunctionRef<size_t(const char* name)> wants,
                     FunctionRef<void(size_t what, const ImportSlot& slot)> visit);

// The virtual functions of a C++ class of a loaded library that exports nothing of it: type
// information stays even in stripped libraries. And how one of them is replaced.

struct VirtualTable {
  uintptr_t* slots = nullptr;  ///< as an object's first word points to; nullptr: none, or several
  size_t count = 0;            ///< functions of the same library that follow each other
  const char* base = "";       ///< the type name of the one class that it is derived from
};

/// The virtual functions of the class with this type name ("N2ns5ClassE") in the library around
/// `inside`. Searches the part of its data that is read-only once relocated: some ms for a large
/// library. HOOK-SAFE: takes the loader's lock, allocates nothing.
VirtualTable find_virtual_table(const void* inside, const char* type_name);

/// Puts `function` into a slot by one aligned store, its page made writable for that and read-only
/// again. False if the page does not allow it: nothing has changed then. HOOK-SAFE, by one thread
/// at a time, since slots share pages.
bool replace_slot(uintptr_t* slot, uintptr_t function);

}  // namespace gpupeak::preload
