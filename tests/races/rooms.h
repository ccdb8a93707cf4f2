// What a test calls of the preload's rooms below hooks/ (rooms.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#define ROOMS_EXPORT extern "C" __attribute__((visibility("default")))

/// The process's start, as its first hook sees it. In a forked child, call it again.
ROOMS_EXPORT void rooms_begin();
ROOMS_EXPORT int rooms_record();  ///< 1: it has a log
/// What malloc and free tell of. A block's first word is its size.
ROOMS_EXPORT void rooms_allocated(void* block, size_t bytes);
ROOMS_EXPORT void rooms_freed(void* block);
ROOMS_EXPORT void rooms_mapped(void* at, size_t bytes);
ROOMS_EXPORT void rooms_unmapping(void* at, size_t bytes);
