#include "track/api_call.h"

#include "log/log.h"

namespace gpupeak::preload {

uint32_t api_of(const ApiCall& call) {
  uint32_t id = __atomic_load_n(call.string_id, __ATOMIC_RELAXED);
  if (id == 0) {
    id = intern_string(call.name);
    __atomic_store_n(call.string_id, id, __ATOMIC_RELAXED);
  }
  return id;
}

}  // namespace gpupeak::preload
