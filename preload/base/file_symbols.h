// The functions that a program's file names, also those that it does not export: its symbol table,
// which `strip` takes away. HOOK-SAFE, but slow: it reads the file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// Calls `visit(name, address, bytes)` for each function of the file, as ELF addresses; nothing
/// where it has no such table, or one of hundreds of MiB.
void for_each_file_symbol(const char* path,
                          void (*visit)(const char* name, uint64_t address, size_t bytes, void*),
                          void* data);
template <typename Visit>
void for_each_file_symbol(const char* path, Visit visit) {
  for_each_file_symbol(
      path,
      [](const char* name, uint64_t address, size_t bytes, void* data) {
        (*static_cast<Visit*>(data))(name, address, bytes);
      },
      &visit);
}

}  // namespace gpupeak::preload
