// What the malloc hooks report. HOOK-SAFE; called by hooks/malloc.cc after (frees: before) the real
// call, outside any HookScope. errno is left alone.
#pragma once

#include <cstddef>

#include "base/hook_scope.h"
#include "base/malloc_entry.h"
#include "base/process_state.h"
#include "gpupeak/log_format.h"
#include "stack/stack.h"
#include "thread/heap_sample.h"
#include "thread/resident.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

constexpr int64_t kCounterSlackBytes = 64 << 10;

/// What a thread's heap has grown by; exact together with what the counters page has.
inline __attribute__((always_inline)) void add_to_counters(ThreadSlot& slot, int64_t usable_bytes) {
  const int64_t delta = slot.heap_delta += usable_bytes;
  if (delta > slot.heap_high) slot.heap_high = delta;
  const bool within_slack = delta + kCounterSlackBytes >= 0 && delta <= kCounterSlackBytes;
  if (__builtin_expect(!within_slack, 0)) {
    flush_slot(slot);
    note_large_block(usable_bytes);
  }
}
/// A block became another one. Small ones count by their difference, which is one step. Large ones
/// go and come, so that note_large_block() sees both.
inline void exchange_in_counters(ThreadSlot& slot, size_t old_usable_bytes, size_t usable_bytes) {
  const auto before = static_cast<int64_t>(old_usable_bytes);
  const auto now = static_cast<int64_t>(usable_bytes);
  if (before < kCounterSlackBytes && now < kCounterSlackBytes) {
    add_to_counters(slot, now - before);
  } else {
    add_to_counters(slot, -before);
    add_to_counters(slot, now);
  }
}

// Where most blocks are counted and no more, that is done here, by few instructions: a program that
// imports a framework makes millions of them.

/// The calling thread's slot if most blocks are counted alone and no hook or allocator is open.
inline __attribute__((always_inline)) ThreadSlot* slot_that_counts() {
  const ThreadFlags& flags = t_flags;
  const bool counts = flags.process_generation == g_process->counted_heap_generation &&
                      (flags.in_hook | flags.in_allocator | flags.arena_calls) == 0;
  return counts ? flags.slot : nullptr;
}
/// Whether a thread has seen all that was asked of the heap's recording from outside.
inline __attribute__((always_inline)) bool knows_windows(const ProcessPage& process,
                                                         const ThreadSlot& slot) {
  return process.window_request == nullptr ||
         (slot.window == process.window && !is_window_asked_for(process));
}
/// Whether an allocation of that size is counted alone, by such a slot.
inline __attribute__((always_inline)) bool is_counted_alone(const ThreadSlot& slot, size_t bytes) {
  return bytes < kLargeBytes && static_cast<int64_t>(bytes) < slot.bytes_to_sample &&
         knows_windows(*g_process, slot);
}
/// The same of a block that is about to go: the log does not have it.
inline __attribute__((always_inline)) bool was_counted_alone(const void* block) {
  return !is_marked(block);
}
inline __attribute__((always_inline)) void count_allocated(ThreadSlot& slot, size_t bytes,
                                                           size_t usable_bytes) {
  const OutermostScope scope;
  ++slot.alloc_delta;
  slot.bytes_to_sample -= static_cast<int64_t>(bytes);
  add_to_counters(slot, static_cast<int64_t>(usable_bytes));
}
inline __attribute__((always_inline)) void count_freed(ThreadSlot& slot, size_t usable_bytes) {
  const OutermostScope scope;
  ++slot.free_delta;
  add_to_counters(slot, -static_cast<int64_t>(usable_bytes));
}
inline __attribute__((always_inline)) void count_reallocated(ThreadSlot& slot, size_t bytes,
                                                             size_t old_usable_bytes,
                                                             size_t usable_bytes) {
  const OutermostScope scope;
  ++slot.alloc_delta;
  ++slot.free_delta;
  slot.bytes_to_sample -= static_cast<int64_t>(bytes);
  exchange_in_counters(slot, old_usable_bytes, usable_bytes);
}

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

// Records requests for the host's memory that were refused. HOOK-SAFE, outside any HookScope; errno
// is left alone.

/// `api`: the function that was called. `error`: the errno with which it failed. The request is
/// recorded if `error` is ENOMEM, with the limit that it would have passed; at most 1000 of them.
void host_allocation_failed(gpupeak_kind kind, const char* api, size_t bytes, int error,
                            const CallerFrame& caller);

}  // namespace gpupeak::preload
