// Finds functions in the loaded libraries by their symbol tables, as dlsym does. We do not call
// dlsym: we hook it, it allocates, and older glibc keeps it in a library of its own.
//
//   find_next("malloc")          → malloc of the next library in load order that has one: glibc's
//   find_in("libc.so.6", "free") → free of that library
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

#include "base/loader.h"

namespace gpupeak::preload {

/// Whether this library was loaded into a program that already ran (`gpupeak attach`), and not
/// before the C library. Known from our first constructor on; in such a program no hook is called
/// before that.
bool came_late();

/// The definition of `name` that would be used without this library: the first in load order after
/// ourselves (as RTLD_NEXT), or, if we came late, in any library but ourselves. nullptr if there is
/// none. HOOK-SAFE: takes only the loader's own lock, allocates nothing.
void* find_next(const char* name);
/// The same for many functions, in one pass over the libraries.
void find_next(const char* const* names, size_t count, void** found);

/// The definition of `name` in the loaded library whose file name starts with `library`
/// ("libc.so.6", "libcuda.so"); nullptr if either is missing. "" is any library: the definition
/// that the program itself binds to, the first in load order. HOOK-SAFE.
void* find_in(const char* library, const char* name);

/// What `name` stands for in one object, loaded at `bias`, by its dynamic section: for objects in
/// namespaces of their own, which the loader does not show. HOOK-SAFE.
void* find_in_image(uintptr_t bias, const void* dynamic, const char* name);

/// What `name` stands for in one object that the loader shows; {nullptr, 0} if the object does not
/// define it. HOOK-SAFE.
struct Symbol {
  void* at = nullptr;
  size_t bytes = 0;
};
Symbol find_symbol(const dl_phdr_info& object, const char* name);
/// Calls `visit(name)` for each function that the loaded library exports.
void for_each_export(const char* library, void (*visit)(const char* name));

/// The function `name` of the first library that was preloaded behind this one and has that
/// function: another interposer, which the program would call without us. nullptr if there is none.
/// HOOK-SAFE.
void* find_preloaded(const char* name);
/// Calls `visit` with the memory of each library that was preloaded behind this one and has one of
/// the functions name_of(0) … name_of(count - 1), and with each of these that it has: its number
/// and its address. These libraries stay the same as long as the process lives. HOOK-SAFE.
void for_each_preloaded_with(const char* (*name_of)(size_t), size_t count,
                             void (*visit)(AddressRange, size_t number, void* function));

/// True if the function at `address` lies in the loaded library whose file name starts with
/// `library`.
bool is_in(const void* address, const char* library);

/// Whether the object is this library.
bool is_ourselves(const dl_phdr_info& object);

/// The loader's path for the module around `address`; empty if there is none. Callable anywhere.
const char* module_path(const void* address);

/// The definition to which the code at `caller` would bind without this library: its own module's,
/// or that of a library which the module needs (DT_NEEDED), else find_next(). HOOK-SAFE.
void* find_for(const void* caller, const char* name);

/// The end of the loaded data around `address`: the end of its module's RELRO part if the address
/// lies there, else of its segment; nullptr if it is in no module. HOOK-SAFE.
const void* data_end(const void* address);

// The dynamic symbols of loaded objects, as the loader has them in memory. HOOK-SAFE.

/// The dynamic symbol table of one loaded object.
struct SymbolTable {
  const ElfW(Sym) * symbols = nullptr;
  const char* strings = nullptr;
  const uint32_t* gnu_hash = nullptr;
  const uint32_t* sysv_hash = nullptr;
  const ElfW(Half) * versions = nullptr;
  const ElfW(Dyn) * dynamic = nullptr;
  uintptr_t bias = 0;
};

/// The table of an object that is loaded at `bias`.
SymbolTable symbol_table(uintptr_t bias, const ElfW(Dyn) * dynamic);
SymbolTable symbol_table(const dl_phdr_info& object);

/// Of the library that find_in() would look into, to ask for much of it; empty: it does not define
/// `name`. The library must stay loaded meanwhile.
SymbolTable table_with(const char* library, const char* name);
void* find_in_table(const SymbolTable& table, const char* name);

/// How many entries the table has.
uint32_t symbol_count(const SymbolTable& table);

}  // namespace gpupeak::preload
