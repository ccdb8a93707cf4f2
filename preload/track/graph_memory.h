// The memory that graphs reserve, which the driver reports as one figure for each device.
// HOOK-SAFE; called by calls/ inside a DriverScope, outside any HookScope.
#pragma once

#include "track/api_call.h"

namespace gpupeak::preload {

/// Reads what a device's graphs reserve now. Each growth is a block of its own, with `call` as its
/// site.
void graph_reserve_read(const ApiCall& call, int device);
/// Whether this process has made graph memory at all; if not, the reserve need not be read.
bool has_graph_memory();
/// The process makes graph memory.
void note_graph_memory();
/// In a forked child. Holds the book's lock.
void forget_graph_memory();

}  // namespace gpupeak::preload
