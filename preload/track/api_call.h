// Which driver call an event comes from. HOOK-SAFE.
#pragma once

#include <cstdint>

#include "stack/stack.h"

namespace gpupeak::preload {

/// Who calls the driver and what for.
struct ApiCall {
  const char* name;     ///< of the driver's function, without ABI suffix
  uint32_t* string_id;  ///< cache of its id in the log; 0: not yet
  CallerFrame caller;
};

/// The id of its name in the log.
uint32_t api_of(const ApiCall& call);

}  // namespace gpupeak::preload
