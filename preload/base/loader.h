// Libraries that we ask for at run time, since we are linked to libc alone.
#pragma once

#include <link.h>

#include <cstdint>
#include <optional>

#include "base/memory.h"
#include "base/signals_held.h"
#include "base/text.h"

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

/// Afterwards all libraries that were listed before are loaded whole. False: the loader cannot be
/// asked. It lists a library before it has written all relocations into it, which it does under a
/// lock that dladdr takes.
bool wait_until_loaded();

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

// Goes through the objects that the loader has loaded. HOOK-SAFE: it takes the loader's own lock
// and no other.
//
// While the loader's lock is held, signals are blocked, as for our own locks: a garbage collector
// may stop all threads by a signal and then ask the loader. While we wait for that lock, signals
// stay open: the thread that has it may be stopped in such a handler.

/// Calls `visit(object)` for each loaded object in load order until it returns true.
template <typename Visit>
void for_each_object(Visit visit) {
  struct Visitor {
    Visit& visit;
    std::optional<SignalsHeld> held;
  } visitor{visit, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t, void* data) {
        auto& that = *static_cast<Visitor*>(data);
        if (!that.held) that.held.emplace();
        return that.visit(*object) ? 1 : 0;
      },
      &visitor);
}

struct AddressRange {
  uintptr_t begin = 0, end = 0;
  bool holds(uintptr_t at, size_t bytes = 1) const {
    return at >= begin && at < end && end - at >= bytes;
  }
};

/// Calls `visit(part, memory)` for each part of the object that is of this type until it returns
/// true, and says whether it did.
template <typename Visit>
bool for_each_part(const dl_phdr_info& object, uint32_t type, Visit visit) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object.dlpi_phdr[i];
    const uintptr_t begin = object.dlpi_addr + part.p_vaddr;
    if (part.p_type == type && visit(part, AddressRange{begin, begin + part.p_memsz})) return true;
  }
  return false;
}

/// The object's memory, from its first byte to its last.
inline AddressRange memory_of(const dl_phdr_info& object) {
  AddressRange all{UINTPTR_MAX, 0};
  for_each_part(object, PT_LOAD, [&all](const ElfW(Phdr)&, AddressRange memory) {
    if (memory.begin < all.begin) all.begin = memory.begin;
    if (memory.end > all.end) all.end = memory.end;
    return false;
  });
  return all;
}

/// The pages that the loader has written to and has then made read-only (RELRO); empty: none.
inline AddressRange relro_of(const dl_phdr_info& object) {
  AddressRange pages;
  for_each_part(object, PT_GNU_RELRO, [&pages](const ElfW(Phdr)&, AddressRange memory) {
    pages = {page_begin(memory.begin), page_begin(memory.end)};
    return true;
  });
  return pages;
}

inline bool holds(const dl_phdr_info& object, const void* address) {
  return for_each_part(object, PT_LOAD, [address](const ElfW(Phdr)&, AddressRange memory) {
    return memory.holds(reinterpret_cast<uintptr_t>(address));
  });
}

/// Calls `use(object)` for the object around an address.
template <typename Use>
void with_object_around(const void* address, Use use) {
  for_each_object([&](const dl_phdr_info& object) {
    const bool found = holds(object, address);
    if (found) use(object);
    return found;
  });
}

struct LoaderState {
  unsigned long long loads = 0, unloads = 0;
};
inline LoaderState loader_state() {
  LoaderState state;
  for_each_object([&state](const dl_phdr_info& object) {
    state = {object.dlpi_adds, object.dlpi_subs};
    return true;
  });
  return state;
}

/// Whether the object has code at this address.
inline bool is_code_of(const dl_phdr_info& object, uintptr_t at) {
  return for_each_part(object, PT_LOAD, [at](const ElfW(Phdr) & part, AddressRange memory) {
    return (part.p_flags & PF_X) != 0 && memory.holds(at);
  });
}

/// The object's file name without its folder; empty for the program itself.
inline const char* file_name(const dl_phdr_info& object) {
  return object.dlpi_name != nullptr ? file_name(object.dlpi_name) : "";
}

}  // namespace gpupeak::preload
