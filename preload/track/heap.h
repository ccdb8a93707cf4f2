// What the malloc hooks report. HOOK-SAFE; called by hooks/malloc.cc after (frees: before) the real
// call, outside any HookScope. errno is left alone.
#pragma once

#include <cstddef>

#include "base/block_size.h"
#include "stack/stack.h"

namespace gpupeak::preload {

/// `usable_bytes` is the block's size by malloc_usable_size; 0 where the allocator cannot say. Of a
/// block that is freed it is asked for late: a time stamp would wait for it.
void heap_allocated(void* block, size_t bytes, size_t usable_bytes, const CallerFrame& caller);
void heap_freed(void* block, BlockSize& usable_bytes);

/// A realloc in three steps: begin before the real call; then exactly one of end, failed and freed,
/// with what begin returned. `freed`: the size was 0 and the allocator took that as a free.
struct ReallocState {
  size_t old_usable_bytes = 0;
  bool logged = false;
};
ReallocState heap_realloc_begin(void* old_block, size_t usable_bytes);
void heap_realloc_end(const ReallocState& state, void* block, size_t bytes, size_t usable_bytes,
                      const CallerFrame& caller);
void heap_realloc_failed(const ReallocState& state, void* old_block);
void heap_realloc_freed(const ReallocState& state, void* old_block);

}  // namespace gpupeak::preload
