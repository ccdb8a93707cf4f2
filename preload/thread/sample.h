// What cannot be hooked, read now and then: resident memory and the growth of brk. HOOK-SAFE.
#pragma once

#include <cstddef>

namespace gpupeak::preload {

/// Logs a SAMPLE of this process. Some 10 us: only where a chunk is full, the process's phase
/// changes.
void sample_process();
/// The same where a thread's phase begins or ends: not if the last one is younger than a
/// millisecond.
void sample_at_border();
/// Where so many bytes are about to go, a sample before tells what was resident with them.
constexpr size_t kWorthASample = 1 << 20;
/// This process shares pages with a child or its parent: samples say its proportional part, too.
void share_pages();

}  // namespace gpupeak::preload
