#include "track/api_call.h"

#include "log/log.h"

namespace gpupeak::preload {

uint32_t new_api(const ApiCall& call) {
  const uint32_t id = intern_string(call.name);
  __atomic_store_n(call.string_id, id, __ATOMIC_RELAXED);
  return id;
}

}  // namespace gpupeak::preload
