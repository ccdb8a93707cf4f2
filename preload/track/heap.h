// What the malloc hooks report. HOOK-SAFE; called by hooks/malloc.cc after (frees: before) the real
// call, outside any HookScope. errno is left alone.
#pragma once

#include <cstddef>

#include "stack/stack.h"

namespace gpupeak::preload {

/// malloc_usable_size of the real allocator, if it has one.
using UsableSize = size_t (*)(void*);
void set_usable_size(UsableSize usable_size);

void heap_allocated(void* block, size_t bytes, const CallerFrame& caller);
void heap_freed(void* block);

/// A realloc in three steps: begin before the real call; then exactly one of end, failed and freed,
/// with what begin returned. `freed`: the size was 0 and the allocator took that as a free.
struct ReallocState {
  size_t old_usable_bytes = 0;
  bool logged = false;
};
ReallocState heap_realloc_begin(void* old_block);
void heap_realloc_end(const ReallocState& state, void* block, size_t bytes,
                      const CallerFrame& caller);
void heap_realloc_failed(const ReallocState& state, void* old_block);
void heap_realloc_freed(const ReallocState& state, void* old_block);

}  // namespace gpupeak::preload
