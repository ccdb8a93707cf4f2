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
#include "base/compiler.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "gpupeak/log_format.h"
#include "log/log.h"
#include "log/log_file.h"
#include "stack/stack_cache.h"

namespace gpupeak::preload {

/// Of the only writer's records, one in so many has a time stamp, and each before which the coarse
/// clock has moved.
constexpr uint32_t kStampEvery = 32;
/// A value of ThreadSlot::unstamped: the last record was no heap record. The only writer's next
/// heap record first adds 1 for itself, which makes the value larger than this.
constexpr uint32_t kBehindEvent = UINT32_MAX - 1;

/// A sequence of chunks: the current one, and the number of the next.
struct ChunkRow {
  Chunk chunk;
  uint64_t sequence = 0;
};

/// The slot's chunks of all events but the heap's. A reader that only wants the devices' figures
/// reads these chunks alone.
struct EventRow : ChunkRow {
  uint8_t* at = nullptr;   ///< next byte to write
  uint8_t* end = nullptr;  ///< end of the chunk
  uint64_t time = 0;       ///< time of the last record, ticks

  bool has_room(size_t room) const { return end - at >= static_cast<ptrdiff_t>(room); }
};

/// A number that one thread writes, and others may read at any time: each reads what was written
/// once, and nothing of what was written beside it.
template <typename Number>
class Own {
 public:
  operator Number() const { return __atomic_load_n(&number_, __ATOMIC_RELAXED); }
  Number operator=(Number number) {
    __atomic_store_n(&number_, number, __ATOMIC_RELAXED);
    return number;
  }
  Number operator+=(Number more) { return *this = *this + more; }
  Number operator-=(Number less) { return *this = *this - less; }

 private:
  Number number_ = 0;
};

struct alignas(64) ThreadSlot {
  // What most mallocs and frees need lies in two cache lines. The first fields of StackCache are
  // the end of the second line.
  uint8_t* at = nullptr;   ///< next byte to write of the heap's chunk
  uint8_t* end = nullptr;  ///< how far it may write before it looks around in refill()
  uint64_t time = 0;       ///< time of the last stamped heap record, ticks
  Own<uint64_t> earliest;  ///< no record is stamped earlier from now on
  uint64_t address = 0;    ///< address in the last heap record; the next is relative to it
  uint32_t unstamped = 0;  ///< records since the last stamp
  std::atomic<uint32_t> stamping{0};  ///< 1: the thread is in stamp()
  uint32_t index = 0;
  uint32_t coarse = 0;  ///< what the coarse clock said at the only writer's last record
  /// Bytes until the next block of a sample; the blocks before it are only counted.
  int64_t bytes_to_sample = 0;
  Own<int64_t> heap_delta;  ///< usable bytes not yet added to the counters page
  int64_t heap_high = 0;    ///< the largest heap_delta since it was last added there
  uint64_t alloc_delta = 0;
  uint64_t free_delta = 0;
  StackCache stacks;
  std::atomic<int> tid{0};
  /// Heap events that found no room in the log. refill() looks again only at some of them.
  uint32_t lost = 0;
  uint64_t looked = 0;           ///< `earliest` at the last look_around()
  uint8_t* looked_at = nullptr;  ///< `at` at the last look_around()
  ChunkRow heap;
  EventRow events;
  ThreadSlot* next = nullptr;
  /// The mean of the sample, as the stream last said; 0: all blocks are logged.
  uint64_t sample_bytes = 0;
  /// Blocks of so many bytes and more are all in the sample, as the stream last said.
  uint64_t whole_bytes = 0;
  uint64_t random = 0;
  // For windows (thread/heap_sample).
  Own<int64_t> handed_on;            ///< usable bytes that heap_delta has had so far
  std::atomic<uint32_t> handing{0};  ///< odd while flush_slot() moves heap_delta to handed_on
  uint32_t window = 0;               ///< the window at the slot's last heap event; 0: none
  Own<int64_t> logged_bytes;         ///< live usable bytes of blocks that the log has
  /// Usable bytes and number of blocks that were freed in windows, and that the log does not have.
  Own<uint64_t> freed_unlogged, frees_unlogged;

  /// Room for one hot record, or false (counted as dropped).
  bool ready() { return __builtin_expect(has_room(), 1) || refill(GPUPEAK_MAX_HOT_RECORD); }
  bool has_room(size_t room = GPUPEAK_MAX_HOT_RECORD) const {
    return end - at >= static_cast<ptrdiff_t>(room);
  }
  /// Makes room for `room` bytes in the heap's chunk, in a new chunk if need be. False (counted as
  /// dropped) if there is none.
  bool refill(size_t room);
  /// The same for the events chunk.
  bool refill_events(size_t room);
  /// Writes an extended record into the heap's chunk, where it concerns the heap's records. False:
  /// there was no room.
  bool write_to_heap(const Record& record);
  /// Writes a record into the events chunk.
  void write(const Record& record);

  /// Whether no other thread has logged since this one's last stamp. If so, this thread's records
  /// need no stamp. Ask where the stamp would be taken: before a free, after an allocation.
  bool is_only_writer(const ProcessPage& process) const {
    arch::order_loads();  // who knows of another thread's record knows that this is revoked
    return __atomic_load_n(&process.only_writer, __ATOMIC_ACQUIRE) == index + 1;
  }
  /// A time for the next heap record, never earlier than the last. Any other thread first revokes
  /// the only writer's privilege. docs/design.md, "Order".
  __attribute__((always_inline)) uint64_t take_stamp(ProcessPage& process, uint64_t (*clock)()) {
    return time = earliest = stamp(process, clock);
  }
  /// A time for the next record of `events`, later than every heap record before it. The caller
  /// calls note_event() when the record is written.
  __attribute__((always_inline)) uint64_t event_stamp(ProcessPage& process) {
    const uint64_t now = stamp(process, ticks);
    return now > earliest ? now : earliest + 1;
  }
  /// A record of `events` was written with the time `when`. Every heap record after it is stamped,
  /// and later.
  void note_event(uint64_t when) {
    events.time = when;
    earliest = when + 1;
    unstamped = kBehindEvent;
  }
  /// The next heap record gets a stamp of its own. For large blocks: people look at their times,
  /// and the next stamp may be seconds away.
  void stamp_next() { unstamped = kStampEvery; }
  /// The time of the only writer's heap record right after a record of `events`. It needs no clock.
  uint64_t take_time_behind_event() {
    unstamped = 0;
    return time = earliest;
  }

 private:
  __attribute__((always_inline)) uint64_t stamp(ProcessPage& process, uint64_t (*clock)()) {
    stamping.store(1, std::memory_order_relaxed);
    in_order();  // for the compiler; the processor's barrier is in claim_only_writer()
    const uint32_t only = __atomic_load_n(&process.only_writer, __ATOMIC_ACQUIRE);
    if (only != 0 && only != index + 1) {
      __atomic_store_n(&process.only_writer, 0, __ATOMIC_RELAXED);
      arch::order_stores();
    }
    const uint64_t now = clock();  // keeps stores behind it: who sees the next one stamps later
    stamping.store(0, std::memory_order_relaxed);
    unstamped = 0;
    return now > earliest ? now : earliest;
  }
  bool begin_chunk(ChunkRow& row, gpupeak_chunk_kind kind, size_t room);
  void look_around(size_t room);
  void claim_only_writer(uint64_t quiet_since);
};

/// The calling thread's slot; nullptr: no memory. thread_slot() finds it, or calls
/// make_thread_slot() for a thread that has none yet.
ThreadSlot* make_thread_slot();
inline ThreadSlot* thread_slot() {
  ThreadFlags& flags = t_flags;
  if (__builtin_expect(flags.slot != nullptr && flags.process_generation == g_process->generation,
                       1)) {
    return flags.slot;
  }
  return make_thread_slot();
}

/// Whether threads may become the only writer, in this process from now on.
void allow_only_writer(bool allowed);
/// From now on each record of this process has a time stamp of its own.
void stamp_every_event();

/// Adds to the heap's counters on the counters page what the slot has not added yet.
void flush_slot(ThreadSlot& slot);
/// The same for the calling thread, if it has a slot. Others flush with their next chunk or 64 KiB.
void flush_own_slot();
/// Sums of the heap over all threads. Each thread's own count is exact.
struct HeapTotals {
  int64_t live_bytes = 0, logged_bytes = 0;  ///< usable
  uint64_t freed_unlogged = 0, frees_unlogged = 0;
};
/// Adds the counts of all slots to `totals`. False: a thread was in flush_slot(), so that
/// live_bytes may be wrong.
bool sum_heap_totals(HeapTotals& totals);
/// Before a new log of the same process, while no thread is in a hook: frees all slots, and gives
/// back the chunks of the old log.
void empty_slots();
/// In a forked child: gives up the parent's slots, whose threads the child does not have.
void abandon_slots();

}  // namespace gpupeak::preload
