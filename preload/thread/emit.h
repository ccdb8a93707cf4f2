// Writes a record into the calling thread's own stream of events. HOOK-SAFE, inside a HookScope.
#pragma once

#include "log/record.h"

namespace gpupeak::preload {

/// The record's time is now. A lost record is counted in dropped_events. Nothing happens where this
/// process only counts.
void emit(const Record& record);

}  // namespace gpupeak::preload
