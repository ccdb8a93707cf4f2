// Unwind rules that some thread has read from a module's table, for all threads: reading one takes
// hundreds of instructions. No lock: an entry is one word. HOOK-SAFE.
#pragma once

#include <cstdint>

#include "stack/frame_rules.h"

namespace gpupeak::preload {

/// read_frame_rule(), out of the table if any thread has met `ip` before.
FrameRule frame_rule(uintptr_t ip);
/// Call it when code was loaded or unloaded: the table may be about other code.
void forget_frame_rules();

}  // namespace gpupeak::preload
