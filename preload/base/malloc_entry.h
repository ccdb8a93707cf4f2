// The one cache line that hooks/malloc_entry_*.S read at each malloc and free, and that nearly all
// calls behind them need. HOOK-SAFE.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/block_size.h"

namespace gpupeak::preload {

struct alignas(64) MallocEntry {
  bool resolved;
  bool passes;              ///< the host's memory is not recorded, and never will be
  void* (*malloc)(size_t);  ///< libc's, or another preloaded one
  void (*free)(void*);
  uintptr_t loader_begin, loader_bytes;  ///< the dynamic loader's code, once it is known
  BlockSize usable_bytes;
};
static_assert(offsetof(MallocEntry, passes) == 1 && offsetof(MallocEntry, malloc) == 8 &&
              offsetof(MallocEntry, free) == 16 && offsetof(MallocEntry, loader_begin) == 24 &&
              offsetof(MallocEntry, loader_bytes) == 32 && sizeof(MallocEntry) == 64);

extern "C" MallocEntry gpupeak_malloc_entry;

}  // namespace gpupeak::preload
