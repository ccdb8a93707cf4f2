// Memory for the preload itself, straight from the kernel and never through malloc. HOOK-SAFE.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "base/arch.h"

namespace gpupeak::preload {

/// Zeroed, page-aligned, never given back; nullptr when the kernel refuses.
void* map_pages(size_t bytes);
/// Addresses for `bytes`; their pages come zeroed at the first touch (MAP_NORESERVE).
void* reserve_pages(size_t bytes);
constexpr size_t kLargePageBytes = 2 << 20;
/// The same in large pages, if the kernel gives these on request. `bytes` must be a multiple of
/// kLargePageBytes.
void* reserve_large_pages(size_t bytes);
/// Reserves addresses alone. commit_pages() makes a part of them usable. mlockall() populates
/// nothing of the rest.
void* reserve_addresses(size_t bytes);
bool commit_pages(void* at, size_t bytes);
/// True under `ulimit -v`: then addresses that we reserve are missing to the program.
bool addresses_are_limited();
/// Gives back all of what these gave, or a part at its beginning or end.
void unmap_pages(void* at, size_t bytes);
/// Words that fill pages become 0. Their pages, of which most were never touched, go back to the
/// kernel where it takes them. Others may read and write them meanwhile.
void clear_pages(std::atomic<uint64_t>* words, size_t count);
/// How much of these addresses is the library's file or variables, or mapped by it. What it maps
/// or moves without the functions above it notes itself, but for the log.
uint64_t own_within(uint64_t begin, uint64_t end);
void note_own(const void* at, size_t bytes);
void forget_own(const void* at, size_t bytes);
/// What was resident of it at the last look.
extern constinit std::atomic<uint64_t> g_own_bytes;
/// The addresses that the preload has from the kernel by now, reservations counted, in bytes. Code
/// that maps memory without the functions of this file adds them itself.
size_t mapped_addresses();
void add_addresses(ptrdiff_t bytes);

// Rounds addresses and sizes to the kernel's pages, which are 4, 16 or 64 KiB. Example, with 4 KiB:
// page_begin(0x1234) is 0x1000, page_end(0x1234) is 0x2000. HOOK-SAFE.
//
// gpupeak/pages.h has the page sizes that figures are rounded to: they do not depend on the kernel.

/// The last page boundary that is not behind `at`.
inline uintptr_t page_begin(uintptr_t at) {
  return at & ~(uintptr_t{arch::page_bytes()} - 1);
}
/// The first page boundary that is not before `at`.
inline uintptr_t page_end(uintptr_t at) {
  return page_begin(at + arch::page_bytes() - 1);
}

/// Gives this what it had at the process's start. Nobody uses it meanwhile.
template <typename Value>
void begin_anew(Value& value) {
  new (&value) Value();
}
template <typename Value, size_t kCount>
void begin_anew(Value (&values)[kCount]) {
  for (Value& value : values) begin_anew(value);
}

}  // namespace gpupeak::preload
