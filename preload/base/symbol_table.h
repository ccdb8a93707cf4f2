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

/// Of an object that is loaded at `bias`.
SymbolTable symbol_table(uintptr_t bias, const ElfW(Dyn) * dynamic);
SymbolTable symbol_table(const dl_phdr_info& object);

/// The entry that defines `name` by default; nullptr if none does.
const ElfW(Sym) * find_entry(const SymbolTable& table, const char* name);
/// The first that defines it, by default or for those alone who ask for its version.
const ElfW(Sym) * find_entry_of_any_version(const SymbolTable& table, const char* name);
/// Entries of the table.
uint32_t symbol_count(const SymbolTable& table);

}  // namespace gpupeak::preload
