// The objects that the loader shows. HOOK-SAFE: takes only the loader's own lock.
#pragma once

#include <link.h>

#include <cstring>

namespace gpupeak::preload {

/// Calls `visit(object)` for each loaded object in load order until it returns true.
template <typename Visit>
void for_each_object(Visit visit) {
  dl_iterate_phdr([](dl_phdr_info* object, size_t,
                     void* data) { return (*static_cast<Visit*>(data))(*object) ? 1 : 0; },
                  &visit);
}

/// Without its folder; empty for the program itself.
inline const char* file_name(const dl_phdr_info& object) {
  if (object.dlpi_name == nullptr) return "";
  const char* slash = strrchr(object.dlpi_name, '/');
  return slash != nullptr ? slash + 1 : object.dlpi_name;
}

}  // namespace gpupeak::preload
