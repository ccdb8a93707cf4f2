// The slots through which a loaded object calls a function of another one, or an exported one of
// its own: what the loader has filled in, or will at the first call, and tables of functions in its
// data. HOOK-SAFE.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// Where an object has the address of a function that it calls.
struct ImportSlot {
  uintptr_t* at;
  bool read_only;  ///< its page has been made so since it was filled in
  bool bound;      ///< filled in: else the first call does it
};

/// Calls `visit(slot)` for each of one object's. What a program has itself stored since is not
/// among them.
template <typename Visit>
void for_each_import(const dl_phdr_info& object, const char* name, Visit visit) {
  for_each_import(
      object, name, [](const ImportSlot& slot, void* data) { (*static_cast<Visit*>(data))(slot); },
      &visit);
}
void for_each_import(const dl_phdr_info& object, const char* name,
                     void (*visit)(const ImportSlot& slot, void* data), void* data);

/// The same for all names of which `wants` says so, in one pass: what it gives is handed to
/// `visit`; 0: not wanted.
struct ImportVisitor {
  size_t (*wants)(const char* name, void* data);
  void (*visit)(size_t what, const ImportSlot& slot, void* data);
  void* data;
};
void for_each_import(const dl_phdr_info& object, const ImportVisitor& visitor);

}  // namespace gpupeak::preload
