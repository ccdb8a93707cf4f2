#include "track/heap.h"

#include <sys/resource.h>

#include <atomic>
#include <cerrno>
#include <initializer_list>

#include "base/call_filter.h"
#include "base/environment.h"
#include "base/kept_errno.h"
#include "base/memory.h"
#include "base/proc_file.h"
#include "base/syscalls.h"
#include "log/log.h"
#include "stack/python_runtime.h"
#include "thread/emit.h"
#include "track/mapping.h"

namespace gpupeak::preload {
namespace {

/// A process that is only counted looks whether it gets a log each time it has allocated so much.
constexpr int64_t kCountedStep = 256 << 10;

/// Opens the log of a process that is only counted, once its blocks and mappings together are
/// enough. The block of `usable_bytes` is counted already, and is the first that is recorded.
inline void look_at_counted(ThreadSlot& slot, size_t usable_bytes) {
  if (__builtin_expect(g_process->counting != 0, 0) &&
      counted_heap_bytes() + counted_mapping_bytes() >= g_process->counted_most) {
    open_counted_log(usable_bytes);
    if (recording()) enter_window(*g_process, slot);
  }
}

void write_block(ThreadSlot& slot, uint8_t tag, const void* block, size_t bytes,
                 size_t usable_bytes, uint32_t node) {
  if (bytes >= kLargeBytes) slot.stamp_next();
  if (slot.ready()) put_block(*g_process, slot, tag, {block, bytes, usable_bytes, node}, ticks);
}

void write_address(ThreadSlot& slot, uint8_t tag, const void* block) {
  if (slot.ready()) put_address(*g_process, slot, tag, block, ticks);
}

/// The thread's slot, if a heap call is recorded: an outermost one, or one inside a LibraryScope,
/// as of the unwinder or NVML (the loader may allocate or move its thread-local storage then). No
/// record is half-written in such a scope, so that is safe. Calls of a signal handler in the middle
/// of other work of ours are not recorded, but counted; so is one without a slot.
inline ThreadSlot* slot_in(const HookScope& scope) {
  const bool may_record = scope.entered() || t_flags.in_library;
  ThreadSlot* const slot = may_record ? thread_slot() : nullptr;
  if (slot == nullptr)
    count(may_record ? &gpupeak_counters_page::dropped_events
                     : &gpupeak_counters_page::reentrant_calls);
  return slot;
}

/// Whether no hook is open, and the thread's stream has room.
inline __attribute__((always_inline)) bool is_prepared(const ThreadSlot& slot) {
  return __builtin_expect(t_flags.in_hook == 0 && slot.has_room(), 1);
}

/// Whether all heap calls are logged, and the thread has its slot in this process's log.
inline __attribute__((always_inline)) bool logs_all(const ProcessPage& process) {
  const uint64_t whole = __atomic_load_n(&process.whole_heap_generation, __ATOMIC_RELAXED);
  return __builtin_expect(t_flags.process_generation == whole, 1);
}

/// Python's own allocator hands out blocks that are no larger.
constexpr size_t kPythonsOwnBytes = 512;

__attribute__((noinline)) uint32_t site_with_lines(ThreadSlot& slot, uint32_t node, size_t bytes,
                                                   const CallerFrame& caller) {
  if (!python_is_met() || !environment().python) return node;
  if (!slot.stacks.asked_for.comes_to(node, bytes, kLargeBytes)) return node;
  const uint32_t site = capture_call_site(slot.stacks, caller);
  if (site != node) __atomic_fetch_add(&g_process->lined_blocks, 1, __ATOMIC_RELAXED);  // its cost
  return site;
}

/// The site of a small block with the native stack `node`. It has Python lines once that stack has
/// asked for as many bytes as a large block has.
inline uint32_t small_block_site(ThreadSlot& slot, uint32_t node, size_t bytes,
                                 const CallerFrame& caller) {
  if (__builtin_expect(bytes <= kPythonsOwnBytes, 1)) return node;
  return site_with_lines(slot, node, bytes, caller);
}

/// The stack of an outermost call; 0 for a call inside a LibraryScope. `is_sample`: the block
/// stands for others, and is worth its Python lines.
inline uint32_t stack_of(const HookScope& scope, ThreadSlot& slot, size_t bytes, bool is_sample,
                         const CallerFrame& caller) {
  if (!scope.entered()) return 0;
  if (bytes >= kLargeBytes || is_sample) return capture_call_site(slot.stacks, caller);
  uint32_t node = slot.stacks.trusted_stack(caller);
  if (__builtin_expect(node == 0, 0)) node = capture_stack(slot.stacks, caller);
  return small_block_site(slot, node, bytes, caller);
}

/// Writes the record of an allocation that is counted already, if it is to be in the log. `tag`: of
/// an allocation or of a realloc's end. False: the block is not to be in the log.
bool log_unless_left_out(const HookScope& scope, ThreadSlot& slot, uint8_t tag, void* block,
                         size_t bytes, size_t usable_bytes, const CallerFrame& caller) {
  ProcessPage& process = *g_process;
  const HostMode mode = host_mode_of(process);
  if (mode < HostMode::kSampled) {
    // A block that is only counted needs no more. Now and then a process looks whether it gets a
    // log.
    slot.bytes_to_sample = process.counting != 0 ? kCountedStep : INT64_MAX;
    return false;
  }
  const bool is_sample = mode == HostMode::kSampled || (mode == HostMode::kOthersSampled &&
                                                        (libraries_start() || is_in_driver()));
  const bool joins = !is_sample || joins_sample(process, slot, bytes);
  if (!is_sample) say_whole(slot);
  if (bytes >= kLargeBytes) slot.lost = 0;  // so that this one looks whether there is room again
  const bool logs = joins && slot.ready();
  if (marked_in(process) == (logs ? Marked::kLogged : Marked::kUnlogged)) mark_block(block);
  if (!joins && mode == HostMode::kOthersSampled) set_quality(GPUPEAK_Q_OTHERS_SAMPLED);
  if (!logs) return joins;
  if (process.window_request != nullptr) note_logged(slot, usable_bytes);
  write_block(slot, tag, block, bytes, usable_bytes,
              stack_of(scope, slot, bytes, is_sample, caller));
  if (mode == HostMode::kSampled) sample_was_taken(process, slot);
  return true;
}

/// Whether the log has the block, which is about to be freed. Takes the block's mark away.
inline bool was_logged(const void* block) {
  const ProcessPage& process = *g_process;
  const bool is_full = host_mode_of(process) == HostMode::kFull;
  if (marked_in(process) == Marked::kNothing) return is_full;
  const bool was_marked = unmark_block(block);
  // If there are windows, blocks from before a window are not in the log.
  if (is_full && process.window_request == nullptr) return true;
  return was_marked == (marked_in(process) == Marked::kLogged);
}

/// The same, and counts the block as freed for windows. Called once for a block.
inline bool is_in_log_until_now(ThreadSlot& slot, const void* block, size_t usable_bytes) {
  const ProcessPage& process = *g_process;
  const bool logged = was_logged(block);
  if (process.window_request != nullptr) note_freed(process, slot, logged, usable_bytes);
  return logged;
}

/// Answers a request to begin or end recording, in a log whose heap is recorded on request. A
/// nested call does not answer: it may be made inside a LibraryScope, with a lock of ours held.
inline void look_at_windows(const HookScope& scope, ThreadSlot& slot) {
  ProcessPage& process = *g_process;
  if (process.window_request == nullptr || !recording()) return;
  if (scope.entered()) look_at_request(process);
  enter_window(process, slot);
}

__attribute__((noinline)) void heap_allocated_slow(void* block, size_t bytes, size_t usable_bytes,
                                                   const CallerFrame& caller) {
  HookScope scope;
  ThreadSlot* const slot = slot_in(scope);
  if (slot == nullptr) return;
  look_at_windows(scope, *slot);
  ++slot->alloc_delta;
  add_to_counters(*slot, static_cast<int64_t>(usable_bytes));
  look_at_counted(*slot, usable_bytes);
  log_unless_left_out(scope, *slot, GPUPEAK_REC_ALLOC, block, bytes, usable_bytes, caller);
}

__attribute__((noinline)) void heap_freed_slow(void* block, BlockSize& size) {
  const size_t usable_bytes = size(block);
  HookScope scope;
  ThreadSlot* const slot = slot_in(scope);
  if (slot == nullptr) return;
  look_at_windows(scope, *slot);
  ++slot->free_delta;
  add_to_counters(*slot, -static_cast<int64_t>(usable_bytes));
  if (is_in_log_until_now(*slot, block, usable_bytes))
    write_address(*slot, GPUPEAK_REC_FREE, block);
}

/// Logs a large block, or one with a stack that is not the expected one or is to be verified.
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
    node = small_block_site(slot, node, bytes, caller);
  }
  write_block(slot, GPUPEAK_REC_ALLOC, block, bytes, usable_bytes, node);
  if (marked_in(*g_process) == Marked::kLogged) mark_block(block);
}

// The arguments are in such an order that none need be moved to another register.

__attribute__((noinline)) GPUPEAK_HOT void log_allocated(void* block, size_t bytes,
                                                         size_t usable_bytes,
                                                         const CallerFrame& caller,
                                                         ThreadSlot& slot, ProcessPage& process) {
  if (__builtin_expect(bytes < kLargeBytes, 1)) {
    const OutermostScope scope;
    uint32_t node = slot.stacks.expected_stack(caller);
    if (__builtin_expect(node != 0, 1)) {
      node = small_block_site(slot, node, bytes, caller);
      put_block(process, slot, GPUPEAK_REC_ALLOC, {block, bytes, usable_bytes, node}, ticks);
      if (marked_in(process) == Marked::kLogged) mark_block(block);
      ++slot.alloc_delta;
      return add_to_counters(slot, static_cast<int64_t>(usable_bytes));
    }
  }
  log_unexpected(slot, block, bytes, usable_bytes, caller);
}

__attribute__((noinline)) GPUPEAK_HOT void log_freed(void* block, BlockSize& size, ThreadSlot& slot,
                                                     ProcessPage& process) {
  const OutermostScope scope;
  put_address(process, slot, GPUPEAK_REC_FREE, block, ticks);
  if (marked_in(process) == Marked::kLogged) unmark_block(block);
  ++slot.free_delta;
  add_to_counters(slot, -static_cast<int64_t>(size(block)));
}

}  // namespace

// The common ways through these two functions make no calls, so that few registers need be saved:
// this is what most programs pay for.

GPUPEAK_HOT void heap_allocated(void* block, size_t bytes, size_t usable_bytes,
                                const CallerFrame& caller) {
  ProcessPage& process = *g_process;
  if (logs_all(process)) {
    ThreadSlot& slot = *t_flags.slot;
    if (is_prepared(slot)) return log_allocated(block, bytes, usable_bytes, caller, slot, process);
  }
  heap_allocated_slow(block, bytes, usable_bytes, caller);
}

GPUPEAK_HOT void heap_freed(void* block, BlockSize& size) {
  ProcessPage& process = *g_process;
  if (logs_all(process)) {
    ThreadSlot& slot = *t_flags.slot;
    if (is_prepared(slot)) return log_freed(block, size, slot, process);
  }
  heap_freed_slow(block, size);
}

ReallocState heap_realloc_begin(void* old_block, size_t usable_bytes) {
  HookScope scope;
  ReallocState state;
  ThreadSlot* const slot = slot_in(scope);
  if (slot == nullptr) return state;
  look_at_windows(scope, *slot);
  state.old_usable_bytes = usable_bytes;
  if (!is_in_log_until_now(*slot, old_block, usable_bytes)) return state;
  state.logged = true;
  write_address(*slot, GPUPEAK_REC_REALLOC_BEGIN, old_block);
  return state;
}

void heap_realloc_end(const ReallocState& state, void* block, size_t bytes, size_t usable_bytes,
                      const CallerFrame& caller) {
  HookScope scope;
  ThreadSlot* const slot = slot_in(scope);
  if (slot == nullptr) return;
  ++slot->alloc_delta;
  ++slot->free_delta;
  exchange_in_counters(*slot, state.old_usable_bytes, usable_bytes);
  look_at_counted(*slot, usable_bytes);
  const uint8_t tag = state.logged ? GPUPEAK_REC_REALLOC_END : GPUPEAK_REC_ALLOC;
  if (log_unless_left_out(scope, *slot, tag, block, bytes, usable_bytes, caller)) return;
  // Only while the heap is recorded: frees after that are not seen, and another block may be
  // counted at this address.
  if (state.logged && __atomic_load_n(&g_process->host_recording, __ATOMIC_ACQUIRE) != 0) {
    // The old block was in the log, the new one is not to be.
    write_block(*slot, GPUPEAK_REC_REALLOC_END, block, 0, 0, 0);
    write_address(*slot, GPUPEAK_REC_FREE, block);
  }
}

/// Takes back what heap_realloc_begin() has counted of a block that lives on.
static void note_not_freed(const ProcessPage& process, ThreadSlot& slot,
                           const ReallocState& state) {
  if (state.logged) {
    note_logged(slot, state.old_usable_bytes);
  } else if (process.window != 0) {
    slot.freed_unlogged -= state.old_usable_bytes;
    slot.frees_unlogged -= 1;
  }
}

void heap_realloc_failed(const ReallocState& state, void* old_block) {
  const Marked marked = marked_in(*g_process);
  if (marked != Marked::kNothing && state.logged == (marked == Marked::kLogged))
    mark_block(old_block);
  const ProcessPage& process = *g_process;
  if (!state.logged && process.window_request == nullptr) return;
  HookScope scope;
  ThreadSlot* const slot = slot_in(scope);
  if (slot == nullptr) return;
  if (process.window_request != nullptr) note_not_freed(process, *slot, state);
  if (!state.logged) return;
  write_address(*slot, GPUPEAK_REC_REALLOC_FAILED, old_block);
}

void heap_realloc_freed(const ReallocState& state, void* old_block) {
  HookScope scope;
  ThreadSlot* const slot = slot_in(scope);
  if (slot == nullptr) return;
  ++slot->free_delta;
  add_to_counters(*slot, -static_cast<int64_t>(state.old_usable_bytes));
  if (!state.logged) return;
  write_address(*slot, GPUPEAK_REC_REALLOC_FAILED, old_block);
  write_address(*slot, GPUPEAK_REC_FREE, old_block);
}

// Requests that were refused.

namespace {

/// No more requests are recorded, since a program may try again and again.
constexpr uint32_t kMostRecorded = 1000;
constinit std::atomic<uint32_t> g_recorded{0};
constinit uint64_t g_generation = 0;

/// A limit of the process, and how much of it is used.
struct Limit {
  gpupeak_host_limit kind = GPUPEAK_LIMIT_NONE;
  uint64_t bytes = 0, used = 0;
};

bool is_beyond(const Limit& limit, size_t bytes) {
  return limit.used > limit.bytes || bytes > limit.bytes - limit.used;
}

uint64_t soft_limit(int resource) {
  rlimit64 limit{};
  const long result = sys::getrlimit(resource, &limit);
  return sys::failed(result) ? RLIM64_INFINITY : limit.rlim_cur;
}

/// The machine's commit limit, if the kernel keeps it strictly (vm.overcommit_memory is 2).
Limit commit_limit() {
  char text[2048];
  text[read_file("/proc/sys/vm/overcommit_memory", text, sizeof text - 1)] = 0;
  if (text[0] != '2') return {};
  text[read_file("/proc/meminfo", text, sizeof text - 1)] = 0;
  return {GPUPEAK_LIMIT_COMMIT, kib_behind("\nCommitLimit:", text),
          kib_behind("\nCommitted_AS:", text)};
}

/// The limit that a request of so many bytes would have passed.
Limit limit_for(size_t bytes) {
  char text[128];
  text[read_file("/proc/self/statm", text, sizeof text - 1)] = 0;
  uint64_t pages[7] = {};  // size resident shared text lib data dirty
  const char* at = text;
  for (uint64_t& count : pages) count = next_number(at);
  const Limit addresses{GPUPEAK_LIMIT_ADDRESSES, soft_limit(RLIMIT_AS),
                        pages[0] * arch::page_bytes()};
  const Limit data{GPUPEAK_LIMIT_DATA, soft_limit(RLIMIT_DATA), pages[5] * arch::page_bytes()};
  for (const Limit& limit : {addresses, data}) {
    if (limit.bytes != RLIM64_INFINITY && is_beyond(limit, bytes)) return limit;
  }
  const Limit commit = commit_limit();
  return commit.bytes != 0 && is_beyond(commit, bytes) ? commit : Limit{};
}

}  // namespace

void host_allocation_failed(gpupeak_kind kind, const char* api, size_t bytes, int error,
                            const CallerFrame& caller) {
  if (error != ENOMEM || bytes == 0) return;
  HookScope scope;
  if (!scope.entered() || !recording()) return;
  if (g_generation != g_process->generation) {  // a forked child counts anew
    g_generation = g_process->generation;
    g_recorded.store(0, std::memory_order_relaxed);
  }
  if (g_recorded.fetch_add(1, std::memory_order_relaxed) >= kMostRecorded) return;
  const KeptErrno program_errno;
  set_quality(GPUPEAK_Q_HOST_REFUSED);
  const Limit limit = has_given_up_lookups() ? Limit{} : limit_for(bytes);
  const uint32_t stack = capture_call_site(caller);
  emit(Record{GPUPEAK_REC_HOST_FAILED, kind, bytes, error, limit.kind, limit.bytes, limit.used,
              intern_string(api), stack,
              limit.kind == GPUPEAK_LIMIT_ADDRESSES ? mapped_addresses() : 0});
}

}  // namespace gpupeak::preload
