// Which driver call an event comes from. HOOK-SAFE.
#pragma once

#include <cstdint>

#include "stack/stack.h"

namespace gpupeak::preload {

/// A call of the driver: which function, and from where.
struct ApiCall {
  const char* name;     ///< the driver's function, without ABI suffix
  uint32_t* string_id;  ///< caches the id of `name` in the log; 0: it has none yet
  CallerFrame caller;
};

uint32_t new_api(const ApiCall& call);
/// The id of the function's name in the log.
inline uint32_t api_of(const ApiCall& call) {
  const uint32_t known = __atomic_load_n(call.string_id, __ATOMIC_RELAXED);
  return __builtin_expect(known != 0, 1) ? known : new_api(call);
}

}  // namespace gpupeak::preload
