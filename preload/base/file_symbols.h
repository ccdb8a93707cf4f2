// The functions that a program's file names, with those that it does not export. They are in its
// symbol table, which `strip` removes. HOOK-SAFE, but slow: it reads the file.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// Calls `visit(name, address, bytes)` for each function of the file, with ELF addresses. Calls
/// nothing if the file has no such table, or one of hundreds of MiB.
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
