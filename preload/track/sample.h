// What cannot be hooked, read now and then: resident memory and the growth of brk. HOOK-SAFE.
#pragma once

namespace gpupeak::preload {

/// Logs a SAMPLE of this process. Some 10 us: only where a chunk is full, a phase begins or ends.
void sample_process();

}  // namespace gpupeak::preload
