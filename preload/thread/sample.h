// What cannot be hooked, read now and then: resident memory and the growth of brk. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Logs a SAMPLE of this process. Some 10 us: only where a chunk is full, the process's phase
/// changes.
void sample_process();
/// The same where a thread's phase begins or ends: not if the last one is younger than a
/// millisecond.
void sample_at_border();

}  // namespace gpupeak::preload
