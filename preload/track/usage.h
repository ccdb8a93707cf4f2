// The counters as the program may read them back. HOOK-SAFE, outside any HookScope.
#pragma once

#include "gpupeak/gpupeak.h"

namespace gpupeak::preload {

/// False, and `usage` is left alone, if that is not measured. `what`: enum gpupeak_what.
bool read_usage(int what, int device, gpupeak_usage& usage);
void reset_window();

}  // namespace gpupeak::preload
