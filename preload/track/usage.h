// Reads the counters for the program itself (gpupeak.h). HOOK-SAFE, outside any HookScope.
#pragma once

#include "gpupeak/gpupeak.h"

namespace gpupeak::preload {

/// `what`: enum gpupeak_what. If it is not measured, returns false and leaves `usage` alone.
bool read_usage(int what, int device, gpupeak_usage& usage);
/// The peaks of the window begin anew, from what is live now.
void reset_window();

}  // namespace gpupeak::preload
