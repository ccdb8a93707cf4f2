// The dynamic symbols of loaded objects, as the loader has them in memory. HOOK-SAFE.
#pragma once

#include <link.h>

#include <cstdint>

namespace gpupeak::preload {

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

/// The entry that defines `name` as its default version; nullptr if there is none.
const ElfW(Sym) * find_entry(const SymbolTable& table, const char* name);
/// The first entry that defines `name`, in whatever version.
const ElfW(Sym) * find_entry_of_any_version(const SymbolTable& table, const char* name);
/// How many entries the table has.
uint32_t symbol_count(const SymbolTable& table);

}  // namespace gpupeak::preload
