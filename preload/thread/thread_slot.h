// A thread's own stream of events. HOOK-SAFE, inside a HookScope.
//
//   slot 3   thread 4711   │ THREAD │ ALLOC │ ALLOC │ FREE │ …room      a chunk of the log's file
//   when the chunk is full, log/log_file.h maps the next one
//
// Slots are never freed. A new thread takes over the slot of a thread that has ended, so thousands
// of short threads need no more slots than the most that live at once.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "base/hook_scope.h"
#include "base/in_order.h"
#include "base/process_state.h"
#include "gpupeak/log_format.h"
#include "log/log_file.h"
#include "log/record.h"
#include "stack/stack_cache.h"

namespace gpupeak::preload {

/// Of the only writer's records, each that many carries a time stamp.
constexpr uint32_t kStampEvery = 32;
/// In place of their number: the last was no heap record, and the next one counts itself first.
constexpr uint32_t kBehindEvent = UINT32_MAX - 1;

/// Chunks one behind the other.
struct ChunkRow {
  Chunk chunk;
  uint64_t sequence = 0;
};

/// The slot's chunk of all events but the heap's. Who reads the log for its devices reads these
/// chunks alone.
struct EventRow : ChunkRow {
  uint8_t* at = nullptr;   ///< next byte to write
  uint8_t* end = nullptr;  ///< of the chunk
  uint64_t time = 0;       ///< running time, ticks

  bool has_room(size_t room) const { return end - at >= static_cast<ptrdiff_t>(room); }
};

struct alignas(64) ThreadSlot {
  // What most mallocs and frees need lies in two cache lines, the second of which ends with what
  // StackCache begins with.
  uint8_t* at = nullptr;              ///< next byte to write of the heap's chunk
  uint8_t* end = nullptr;             ///< how far it may write before it looks around in refill()
  uint64_t time = 0;                  ///< running time of the heap's chunk, ticks
  uint64_t earliest = 0;              ///< no record is stamped earlier from now on
  uint64_t address = 0;               ///< running address of the heap's chunk
  uint32_t unstamped = 0;             ///< records since the last stamp
  std::atomic<uint32_t> stamping{0};  ///< in stamp()
  uint32_t index = 0;
  std::atomic<int> tid{0};
  /// Until the next block of a sample; the blocks before it are only counted.
  int64_t bytes_to_sample = 0;
  int64_t heap_delta = 0;  ///< usable bytes not yet added to the counters page
  int64_t heap_high = 0;   ///< the largest that heap_delta was since
  uint64_t alloc_delta = 0;
  uint64_t free_delta = 0;
  StackCache stacks;
  uint32_t lost = 0;    ///< heap events since it last looked whether there is room in the log again
  uint64_t looked = 0;  ///< `earliest` when it last looked around
  uint8_t* looked_at = nullptr;  ///< where it wrote then
  ChunkRow heap;
  EventRow events;
  ThreadSlot* next = nullptr;
  /// As the stream says: the mean of the sample that the blocks are; 0: all blocks are logged.
  uint64_t sample_bytes = 0;
  uint64_t whole_bytes = 0;  ///< likewise: blocks of so many bytes are all in the sample
  uint64_t random = 0;
  // Of thread/heap_windows.
  int64_t handed_on = 0;             ///< of usable bytes to the counters page, in all
  std::atomic<uint32_t> handing{0};  ///< odd while flush_slot() moves heap_delta there
  uint32_t window = 0;               ///< the last one in which it had a heap event
  int64_t logged_bytes = 0;          ///< usable, of blocks that the log has
  uint64_t freed_unlogged = 0, frees_unlogged = 0;  ///< in windows, of blocks that it does not have

  /// Room for one hot record, or false (counted as dropped).
  bool ready() { return __builtin_expect(has_room(), 1) || refill(GPUPEAK_MAX_HOT_RECORD); }
  bool has_room(size_t room = GPUPEAK_MAX_HOT_RECORD) const {
    return end - at >= static_cast<ptrdiff_t>(room);
  }
  bool refill(size_t room);
  /// The same for `events`.
  bool refill_events(size_t room);
  /// Among the heap's records, for what concerns these. False: there was no room.
  bool write_to_heap(const Record& record);
  void write(const Record& record);

  /// Whether no other thread has logged since this one's last stamp: what it logs needs no stamp
  /// then. To be asked where the stamp would be taken: before a free, after an allocation.
  bool is_only_writer(const ProcessPage& process) const {
    arch::order_loads();
    return __atomic_load_n(&process.only_writer, __ATOMIC_ACQUIRE) == index + 1;
  }
  /// A time for the next heap record, never earlier than the last. Any other thread first revokes
  /// the only writer's privilege. docs/design.md, "Order".
  __attribute__((always_inline)) uint64_t take_stamp(ProcessPage& process, uint64_t (*clock)()) {
    return time = earliest = stamp(process, clock);
  }
  /// The same for a record of `events`: later than every heap record before it. It says itself, by
  /// note_event(), when it is written.
  __attribute__((always_inline)) uint64_t event_stamp(ProcessPage& process) {
    const uint64_t now = stamp(process, ticks);
    return now > earliest ? now : earliest + 1;
  }
  /// Every heap record behind it is later, and says so.
  void note_event(uint64_t when) {
    events.time = when;
    earliest = when + 1;
    unstamped = kBehindEvent;
  }
  /// The next heap record gets a stamp of its own. For large blocks: people look at when they come
  /// and go, and the next stamp may be seconds away.
  void stamp_next() { unstamped = kStampEvery; }
  /// The same for the only writer's heap record right behind that one, whose time is known.
  uint64_t take_time_behind_event() {
    unstamped = 0;
    return time = earliest;
  }

 private:
  __attribute__((always_inline)) uint64_t stamp(ProcessPage& process, uint64_t (*clock)()) {
    stamping.store(1, std::memory_order_relaxed);
    in_order();  // claim_only_writer() has the barrier for the processor
    const uint32_t only = __atomic_load_n(&process.only_writer, __ATOMIC_ACQUIRE);
    if (only != 0 && only != index + 1) {
      __atomic_store_n(&process.only_writer, 0, __ATOMIC_RELEASE);
      arch::order_stores();
    }
    const uint64_t now = clock();
    stamping.store(0, std::memory_order_release);
    unstamped = 0;
    return now > earliest ? now : earliest;
  }
  bool begin_chunk(ChunkRow& row, gpupeak_chunk_kind kind, size_t room);
  void look_around(size_t room);
  void claim_only_writer(uint64_t quiet_since);
};

/// The calling thread's slot; nullptr if no memory could be had.
ThreadSlot* make_thread_slot();
inline ThreadSlot* thread_slot() {
  ThreadFlags& flags = t_flags;
  if (__builtin_expect(flags.slot != nullptr && flags.process_generation == g_process->generation,
                       1)) {
    return flags.slot;
  }
  return make_thread_slot();
}

/// Whether a thread's ReadableStack has pages of [begin, end).
bool any_slot_reads(uintptr_t begin, uintptr_t end);

/// Whether threads may become the only writer, in this process from now on.
void allow_only_writer(bool allowed);
/// From now on each record has a time stamp of its own, in this process.
void stamp_every_event();

/// Adds to the heap counters what the slot has not added yet.
void flush_slot(ThreadSlot& slot);
/// The same for the calling thread, if it has a slot. Others flush with their next chunk or 64 KiB.
void flush_own_slot();
/// What the threads have of the heap, each by its own account, which is exact.
struct HeapTotals {
  int64_t live_bytes = 0, logged_bytes = 0;  ///< usable
  uint64_t freed_unlogged = 0, frees_unlogged = 0;
};
/// False: a thread was just handing on what it has counted, so that live_bytes may be wrong.
bool sum_heap_totals(HeapTotals& totals);
/// Before a new log of the same process, while no thread is in a hook: all slots are free, and what
/// they held of the log before is given back.
void empty_slots();
/// In a forked child: gives up the parent's slots, whose threads the child does not have.
void abandon_slots();

}  // namespace gpupeak::preload
