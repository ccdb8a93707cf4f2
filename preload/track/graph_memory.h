// The memory behind graphs, which the driver reports as one figure a device. HOOK-SAFE; called by
// calls/ inside a DriverScope, outside any HookScope.
#pragma once

#include "track/api_call.h"

namespace gpupeak::preload {

/// What a device's graphs hold by now. What it grew by is a block of its own, of the call that grew
/// it.
void graph_reserve_read(const ApiCall& call, int device);
/// Whether this process has made graph memory at all; if not, its reserve need not be asked for.
bool has_graph_memory();
/// From now on it has.
void note_graph_memory();
/// In a forked child. Holds the book's lock.
void forget_graph_memory();

}  // namespace gpupeak::preload
