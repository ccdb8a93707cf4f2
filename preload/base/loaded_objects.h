// The objects that the loader shows. HOOK-SAFE: takes only the loader's own lock, and holds it with
// signals blocked, as our own: a collector may ask the loader while all other threads stand in a
// handler. It waits for that lock with signals open, since whoever has it may be one of those.
#pragma once

#include <link.h>

#include <cstring>
#include <optional>

#include "base/signals_held.h"

namespace gpupeak::preload {

/// The same with how many bytes of its description this loader knows.
template <typename Visit>
void for_each_described_object(Visit visit) {
  struct Visitor {
    Visit& visit;
    std::optional<SignalsHeld> held;
  } visitor{visit, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, size_t bytes, void* data) {
        auto& that = *static_cast<Visitor*>(data);
        if (!that.held) that.held.emplace();
        return that.visit(*object, bytes) ? 1 : 0;
      },
      &visitor);
}

/// Calls `visit(object)` for each loaded object in load order until it returns true.
template <typename Visit>
void for_each_object(Visit visit) {
  for_each_described_object([&](const dl_phdr_info& object, size_t) { return visit(object); });
}

/// Without its folder; empty for the program itself.
inline const char* file_name(const dl_phdr_info& object) {
  if (object.dlpi_name == nullptr) return "";
  const char* slash = strrchr(object.dlpi_name, '/');
  return slash != nullptr ? slash + 1 : object.dlpi_name;
}

}  // namespace gpupeak::preload
