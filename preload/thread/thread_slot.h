// A thread's own event stream. Slots are never freed: a new thread takes over that of a thread that
// has ended, so that thousands of short threads need no more log than the most that live at once.
// HOOK-SAFE, inside a HookScope.
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

struct alignas(64) ThreadSlot {
  // What most mallocs and frees need lies in two cache lines, the second of which ends with what
  // StackCache begins with.
  uint8_t* at = nullptr;              ///< next byte to write
  uint8_t* end = nullptr;             ///< how far it may write before it looks around in refill()
  uint64_t time = 0;                  ///< running time of the stream, ticks
  uint64_t address = 0;               ///< running address of the stream
  uint32_t unstamped = 0;             ///< records since the last stamp
  std::atomic<uint32_t> stamping{0};  ///< in stamp()
  uint32_t index = 0;
  std::atomic<int> tid{0};
  int64_t heap_delta = 0;  ///< usable bytes not yet added to the counters page
  uint64_t alloc_delta = 0;
  uint64_t free_delta = 0;
  StackCache stacks;
  uint64_t looked = 0;  ///< `time` when it last looked around
  Chunk chunk;
  uint64_t sequence = 0;
  ThreadSlot* next = nullptr;
  int64_t bytes_to_sample = 0;
  bool sampling_said = false;  ///< the stream says that it is a sample from there on
  uint64_t random = 0;

  /// Room for one hot record, or false (counted as dropped).
  bool ready() { return __builtin_expect(has_room(), 1) || refill(GPUPEAK_MAX_HOT_RECORD); }
  bool has_room(size_t room = GPUPEAK_MAX_HOT_RECORD) const {
    return end - at >= static_cast<ptrdiff_t>(room);
  }
  bool refill(size_t room);
  void write(const Record& record);

  /// Whether no other thread has logged since this one's last stamp: what it logs needs no stamp
  /// then. To be asked where the stamp would be taken: before a free, after an allocation.
  bool is_only_writer(const ProcessPage& process) const {
    arch::order_loads();
    return __atomic_load_n(&process.only_writer, __ATOMIC_ACQUIRE) == index + 1;
  }
  /// A time for the next record, never earlier than the last. Any other thread first revokes the
  /// only writer's privilege. docs/design.md, "Order".
  __attribute__((always_inline)) uint64_t take_stamp(ProcessPage& process, uint64_t (*clock)()) {
    return time = stamp(process, clock);
  }
  /// The same for a record that says itself when `time` is that.
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
    return now > time ? now : time;
  }

 private:
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
/// In a forked child: the parent's slots are nobody's here.
void abandon_slots();

}  // namespace gpupeak::preload
