// What the process's resident memory consists of, by the kernel's list of its mappings and the
// counters of the heap. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// malloc is glibc's: it is known where it puts its blocks.
void note_malloc_of_glibc();

/// A block of the heap came, or went: then `usable_bytes` is negative. Only large ones matter.
void note_large_block(int64_t usable_bytes);

/// In a forked child: its resident memory is another one's.
void forget_resident_memory();

// Reads now and then what cannot be hooked: resident memory and the growth of brk. HOOK-SAFE.

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
constexpr size_t kWorthASample = 128 << 10;
/// This process shares pages with a child or its parent: samples have its proportional share, too.
void share_pages();

}  // namespace gpupeak::preload
