// Reads now and then what cannot be hooked: resident memory, of what it consists by the kernel's
// list of mappings and the heap's counters, and the growth of brk. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstddef>
#include <cstdint>

namespace gpupeak::preload {

/// malloc is glibc's: it is known where it puts its blocks.
void note_malloc_of_glibc();

/// A block of the heap came, or went: then `usable_bytes` is negative. Only large ones matter.
void note_large_block(int64_t usable_bytes);

/// There are pages that only the kernel's whole list tells apart (MAP_GROWSDOWN, hugetlbfs).
void see_rare_pages(bool are_huge);

/// In a forked child: its resident memory is another one's.
void forget_resident_memory();

/// When somebody looks: something of the log is full, or the process's phase changes; memory is
/// about to be freed; at the end.
enum class Moment : uint8_t { kAny, kBeforeLess, kAtEnd };

/// Logs a SAMPLE of this process, which takes some 10 us, and looks closer if more is resident than
/// before. At the end the sample has what of it is the process's own, and the most that was ever
/// resident is noted. `going`: bytes that are about to go. Takes 2 KiB of stack.
void sample(Moment moment, size_t going = SIZE_MAX);
/// Logs a SAMPLE where a thread's phase begins or ends, unless the last one is younger than a
/// millisecond, or than 256 times what that one took.
void sample_at_border(size_t going = SIZE_MAX);
/// The same before memory is freed: kWorthASample at once, or eight times that in smaller pieces.
void sample_before_less(size_t bytes);
constexpr size_t kWorthASample = 128 << 10;
/// This process shares pages with a child or its parent: samples have its proportional share, too.
void share_pages();

}  // namespace gpupeak::preload
