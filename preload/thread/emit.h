// A record into the calling thread's own stream of events. HOOK-SAFE, inside a HookScope.
#pragma once

#include "log/record.h"

namespace gpupeak::preload {

/// Stamped now. Lost records are counted in dropped_events.
void emit(const Record& record);

}  // namespace gpupeak::preload
