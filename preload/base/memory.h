// Memory for the preload itself, straight from the kernel and never through malloc. HOOK-SAFE.
#pragma once

#include <cstddef>

namespace gpupeak::preload {

/// Zeroed, page-aligned, never given back; nullptr when the kernel refuses. Counted in
/// self_bytes().
void* map_pages(size_t bytes);
/// Addresses for `bytes`, with pages that come zeroed at their first touch (MAP_NORESERVE).
void* reserve_pages(size_t bytes);
constexpr size_t kLargePageBytes = 2 << 20;
/// The same in large pages (kLargePageBytes), where the kernel gives those on request. `bytes` must
/// be a multiple of their size.
void* reserve_large_pages(size_t bytes);
/// Addresses only. commit_pages() makes a part of them usable; mlockall() populates nothing of the
/// rest.
void* reserve_addresses(size_t bytes);
bool commit_pages(void* at, size_t bytes);
/// True under `ulimit -v`: then the program cannot have the addresses that we reserve.
bool addresses_are_limited();
void unmap_pages(void* at, size_t bytes);
/// What the preload has mapped for itself by now, reservations not counted, in bytes.
size_t self_bytes();
void add_self_bytes(ptrdiff_t bytes);

}  // namespace gpupeak::preload
