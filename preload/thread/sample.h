// Reads now and then what cannot be hooked: resident memory and the growth of brk. HOOK-SAFE.
#pragma once

#include <cstddef>

namespace gpupeak::preload {

/// Logs a SAMPLE of this process. It takes some 10 us, so it is called only where a chunk is full,
/// where the process's phase changes, and by sample_at_border().
void sample_process();
/// Logs a SAMPLE where a thread's phase begins or ends, unless the last one is younger than a
/// millisecond, or than 256 times what that one took.
void sample_at_border();
/// At the process's end: logs a SAMPLE with what of it is the process's own, and notes the most
/// that was ever resident. Takes 2 KiB of stack.
void sample_at_end();
/// If so many bytes are about to be freed, a sample before shows what was resident with them.
constexpr size_t kWorthASample = 1 << 20;
/// This process shares pages with a child or its parent: samples have its proportional share, too.
void share_pages();

}  // namespace gpupeak::preload
