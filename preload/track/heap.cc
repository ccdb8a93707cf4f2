#include "track/heap.h"

#include "base/environment.h"
#include "base/hot.h"
#include "base/process_state.h"
#include "log/log.h"
#include "stack/stack.h"
#include "thread/hot_record.h"
#include "thread/sampled_set.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {
namespace {

constexpr int64_t kCounterSlackBytes = 64 << 10;
/// Blocks of that many bytes are few, and most of a peak: they have their Python lines.
constexpr size_t kLargeBytes = 64 << 10;

inline bool within_slack(int64_t heap_delta) {
  return heap_delta + kCounterSlackBytes >= 0 && heap_delta <= kCounterSlackBytes;
}

inline void add_to_counters(ThreadSlot& slot, int64_t usable_bytes) {
  slot.heap_delta += usable_bytes;
  if (!within_slack(slot.heap_delta)) flush_slot(slot);
}

void write_block(ThreadSlot& slot, uint8_t tag, const void* block, size_t bytes,
                 size_t usable_bytes, uint32_t node) {
  if (slot.ready()) put_block(*g_process, slot, tag, {block, bytes, usable_bytes, node}, ticks);
}

void write_address(ThreadSlot& slot, uint8_t tag, const void* block) {
  if (slot.ready()) put_address(*g_process, slot, tag, block, ticks);
}

/// Poisson sampling by bytes: whether this allocation is in the sample.
__attribute__((noinline)) bool sampled(ThreadSlot& slot, size_t bytes) {
  const auto next_gap = [&slot] {  // exponential: every byte is equally likely to be hit
    slot.random ^= slot.random << 13;
    slot.random ^= slot.random >> 7;
    slot.random ^= slot.random << 17;
    return 1 + exponential_gap(slot.random);
  };
  if (slot.random == 0) {
    slot.random = (slot.index + 1) * 0x9e3779b97f4a7c15u ^ ticks();
    slot.bytes_to_sample = next_gap();
  }
  slot.bytes_to_sample -= static_cast<int64_t>(bytes);
  if (slot.bytes_to_sample > 0) return false;
  do slot.bytes_to_sample += next_gap();
  while (slot.bytes_to_sample <= 0);
  return true;
}

/// Whether a heap call is recorded: an outermost one, or one that the unwinder or NVML makes (the
/// loader may allocate or move its thread-local storage then). No record is half-written meanwhile,
/// so that is safe. What a signal handler does in the middle of other work of ours is not recorded,
/// and counted.
inline bool may_record(const HookScope& scope) {
  if (scope.entered() || t_flags.in_library) return true;
  count(&gpupeak_counters_page::reentrant_calls);
  return false;
}

/// Whether no hook is open, and the thread's stream has room.
inline __attribute__((always_inline)) bool is_prepared(const ThreadSlot& slot) {
  return __builtin_expect(t_flags.in_hook == 0 && slot.has_room(), 1);
}

/// Whether all heap calls are logged, and the thread has its slot in this process's log.
inline __attribute__((always_inline)) bool logs_all(const ProcessPage& process) {
  return __builtin_expect(t_flags.process_generation == process.whole_heap_generation, 1);
}

/// Whether the thread has its slot in this process's log, of which not all heap calls are part.
inline __attribute__((always_inline)) bool has_slot(const ProcessPage& process) {
  return t_flags.process_generation == process.generation;
}

/// The stack of an outermost call; none for those libraries' own.
inline uint32_t stack_of(const HookScope& scope, ThreadSlot& slot, size_t bytes,
                         const CallerFrame& caller) {
  if (!scope.entered()) return 0;
  if (bytes >= kLargeBytes) return capture_call_site(slot.stacks, caller);
  const uint32_t node = slot.stacks.trusted_stack(caller);
  return __builtin_expect(node != 0, 1) ? node : capture_stack(slot.stacks, caller);
}

bool logs_events() {
  return g_process->host_mode >= HostMode::kSampled;
}

/// chosen() where not all are.
__attribute__((noinline)) bool joins_sample(ThreadSlot& slot, void* block, size_t bytes) {
  const bool late = g_process->sampled_late != 0;
  if (late && !slot.sampling_said) {
    Record record(GPUPEAK_REC_SAMPLING);
    slot.write(record.u(environment().sample_bytes));
    slot.sampling_said = true;
  }
  if (sampled(slot, bytes) && (late || sampled_set_insert(block))) return true;
  if (late) note_unlogged(block);
  return false;
}

/// Whether the record of this allocation goes into the log.
inline bool chosen(ThreadSlot& slot, void* block, size_t bytes) {
  if (g_process->host_mode == HostMode::kFull) return true;
  return joins_sample(slot, block, bytes);
}

/// Whether the log has the block, which is about to go.
inline bool was_logged(const void* block) {
  if (g_process->host_mode == HostMode::kFull) return true;
  if (g_process->sampled_late == 0) return sampled_set_erase(block);
  return !forget_unlogged(block);
}

/// Whether an allocation is counted and no more: all of them are, or it is not in the sample.
inline bool is_counted_alone(const ProcessPage& process, ThreadSlot& slot, size_t bytes) {
  if (process.host_mode == HostMode::kCounters) return true;
  // What is sampled late is marked; and before the first sample nothing is known of the gap.
  if (process.host_mode != HostMode::kSampled || process.sampled_late != 0 || slot.random == 0)
    return false;
  if (slot.bytes_to_sample <= static_cast<int64_t>(bytes)) return false;
  slot.bytes_to_sample -= static_cast<int64_t>(bytes);
  return true;
}

/// The same of a block that is about to go.
inline bool was_counted_alone(const ProcessPage& process, const void* block) {
  if (process.host_mode == HostMode::kCounters) return true;
  return process.host_mode == HostMode::kSampled && process.sampled_late == 0 &&
         !sampled_set_may_have(block);
}

__attribute__((noinline)) void heap_allocated_otherwise(void* block, size_t bytes,
                                                        size_t usable_bytes,
                                                        const CallerFrame& caller) {
  HookScope scope;
  if (!may_record(scope)) return;
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) return count(&gpupeak_counters_page::dropped_events);
  ++slot->alloc_delta;
  add_to_counters(*slot, static_cast<int64_t>(usable_bytes));
  if (!logs_events() || !chosen(*slot, block, bytes)) return;
  const uint32_t node = stack_of(scope, *slot, bytes, caller);
  write_block(*slot, GPUPEAK_REC_ALLOC, block, bytes, usable_bytes, node);
}

__attribute__((noinline)) void heap_freed_otherwise(void* block, BlockSize& size) {
  const size_t usable_bytes = size(block);
  HookScope scope;
  if (!may_record(scope)) return;
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) return count(&gpupeak_counters_page::dropped_events);
  ++slot->free_delta;
  add_to_counters(*slot, -static_cast<int64_t>(usable_bytes));
  if (!logs_events() || !was_logged(block)) return;
  write_address(*slot, GPUPEAK_REC_FREE, block);
}

/// Of a large block, or where the stack is not the expected one, has to be walked, or is to be
/// verified.
__attribute__((noinline)) GPUPEAK_HOT void log_unexpected(ThreadSlot& slot, void* block,
                                                          size_t bytes, size_t usable_bytes,
                                                          const CallerFrame& caller) {
  const OutermostScope scope;
  ++slot.alloc_delta;
  add_to_counters(slot, static_cast<int64_t>(usable_bytes));
  uint32_t node = 0;
  if (bytes >= kLargeBytes) {
    node = capture_call_site(slot.stacks, caller);
  } else {
    if (!slot.stacks.verify) node = slot.stacks.unexpected_stack(caller);
    if (node == 0) node = capture_stack(slot.stacks, caller);
  }
  write_block(slot, GPUPEAK_REC_ALLOC, block, bytes, usable_bytes, node);
}

// Arguments are in an order in which none need be moved on the way.

__attribute__((noinline)) GPUPEAK_HOT void log_allocated(void* block, size_t bytes,
                                                         size_t usable_bytes,
                                                         const CallerFrame& caller,
                                                         ThreadSlot& slot, ProcessPage& process) {
  if (__builtin_expect(bytes < kLargeBytes, 1)) {
    const OutermostScope scope;
    const uint32_t node = slot.stacks.expected_stack(caller);
    if (__builtin_expect(node != 0, 1)) {
      put_block(process, slot, GPUPEAK_REC_ALLOC, {block, bytes, usable_bytes, node}, tsc);
      ++slot.alloc_delta;
      return add_to_counters(slot, static_cast<int64_t>(usable_bytes));
    }
  }
  log_unexpected(slot, block, bytes, usable_bytes, caller);
}

__attribute__((noinline)) GPUPEAK_HOT void log_freed(void* block, BlockSize& size, ThreadSlot& slot,
                                                     ProcessPage& process) {
  const OutermostScope scope;
  put_address(process, slot, GPUPEAK_REC_FREE, block, tsc);
  ++slot.free_delta;
  add_to_counters(slot, -static_cast<int64_t>(size(block)));
}

__attribute__((noinline)) void count_allocated(void* block, size_t bytes, size_t usable_bytes,
                                               const CallerFrame& caller, ThreadSlot& slot,
                                               const ProcessPage& process) {
  if (!is_prepared(slot) || !is_counted_alone(process, slot, bytes))
    return heap_allocated_otherwise(block, bytes, usable_bytes, caller);
  const OutermostScope scope;
  ++slot.alloc_delta;
  add_to_counters(slot, static_cast<int64_t>(usable_bytes));
}

__attribute__((noinline)) void count_freed(void* block, BlockSize& size, ThreadSlot& slot,
                                           const ProcessPage& process) {
  if (!is_prepared(slot) || !was_counted_alone(process, block))
    return heap_freed_otherwise(block, size);
  const OutermostScope scope;
  ++slot.free_delta;
  add_to_counters(slot, -static_cast<int64_t>(size(block)));
}

}  // namespace

// The common ways through these two are free of calls, so that few registers need be saved: what
// they cost is what most programs pay.

GPUPEAK_HOT void heap_allocated(void* block, size_t bytes, size_t usable_bytes,
                                const CallerFrame& caller) {
  ProcessPage& process = *g_process;
  if (logs_all(process)) {
    ThreadSlot& slot = *t_flags.slot;
    if (is_prepared(slot)) return log_allocated(block, bytes, usable_bytes, caller, slot, process);
  } else if (has_slot(process)) {
    return count_allocated(block, bytes, usable_bytes, caller, *t_flags.slot, process);
  }
  heap_allocated_otherwise(block, bytes, usable_bytes, caller);
}

GPUPEAK_HOT void heap_freed(void* block, BlockSize& size) {
  ProcessPage& process = *g_process;
  if (logs_all(process)) {
    ThreadSlot& slot = *t_flags.slot;
    if (is_prepared(slot)) return log_freed(block, size, slot, process);
  } else if (has_slot(process)) {
    return count_freed(block, size, *t_flags.slot, process);
  }
  heap_freed_otherwise(block, size);
}

ReallocState heap_realloc_begin(void* old_block, size_t usable_bytes) {
  HookScope scope;
  ReallocState state;
  if (!may_record(scope)) return state;
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) {
    count(&gpupeak_counters_page::dropped_events);
    return state;
  }
  state.old_usable_bytes = usable_bytes;
  if (!logs_events() || !was_logged(old_block)) return state;
  state.logged = true;
  write_address(*slot, GPUPEAK_REC_REALLOC_BEGIN, old_block);
  return state;
}

void heap_realloc_end(const ReallocState& state, void* block, size_t bytes, size_t usable_bytes,
                      const CallerFrame& caller) {
  HookScope scope;
  if (!may_record(scope)) return;
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) return count(&gpupeak_counters_page::dropped_events);
  ++slot->alloc_delta;
  ++slot->free_delta;
  add_to_counters(*slot, static_cast<int64_t>(usable_bytes - state.old_usable_bytes));
  const bool wanted = logs_events() && chosen(*slot, block, bytes);
  if (wanted) {
    const uint32_t node = stack_of(scope, *slot, bytes, caller);
    const uint8_t tag = state.logged ? GPUPEAK_REC_REALLOC_END : GPUPEAK_REC_ALLOC;
    write_block(*slot, tag, block, bytes, usable_bytes, node);
  } else if (state.logged) {
    // sampled: the old block was in the sample, the new one is not
    write_block(*slot, GPUPEAK_REC_REALLOC_END, block, 0, 0, 0);
    write_address(*slot, GPUPEAK_REC_FREE, block);
  }
}

void heap_realloc_failed(const ReallocState& state, void* old_block) {
  const bool sampled_now = g_process->host_mode == HostMode::kSampled;
  const bool late = g_process->sampled_late != 0;
  if (!state.logged) {
    if (sampled_now && late) note_unlogged(old_block);
    return;
  }
  HookScope scope;
  if (!may_record(scope)) return;
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) return;
  if (sampled_now && !late) sampled_set_insert(old_block);
  write_address(*slot, GPUPEAK_REC_REALLOC_FAILED, old_block);
}

void heap_realloc_freed(const ReallocState& state, void* old_block) {
  HookScope scope;
  if (!may_record(scope)) return;
  ThreadSlot* slot = thread_slot();
  if (slot == nullptr) return;
  ++slot->free_delta;
  add_to_counters(*slot, -static_cast<int64_t>(state.old_usable_bytes));
  if (!state.logged) return;
  write_address(*slot, GPUPEAK_REC_REALLOC_FAILED, old_block);
  write_address(*slot, GPUPEAK_REC_FREE, old_block);
}

}  // namespace gpupeak::preload
