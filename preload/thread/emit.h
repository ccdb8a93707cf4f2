// Writes a record into the calling thread's own stream of events. HOOK-SAFE, inside a HookScope.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/arch.h"
#include "base/process_state.h"
#include "gpupeak/log_format.h"
#include "gpupeak/pages.h"
#include "log/log.h"
#include "stack/stack.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

/// The record's time is now. A lost record is counted in dropped_events. Nothing happens where this
/// process only counts.
void emit(const Record& record);

// Writes heap events straight into the thread's chunk of the log. The caller has made sure that
// there is room: ThreadSlot::ready(). HOOK-SAFE, inside a HookScope.

using Clock = uint64_t (*)();

/// Writes a record's time, if it has one, and the address. Returns where the next field goes. `tag`
/// is complete then, but not yet stored.
inline __attribute__((always_inline)) uint8_t* begin_record(ProcessPage& process, ThreadSlot& slot,
                                                            uint8_t& tag, const void* block,
                                                            Clock clock) {
  uint8_t* to = slot.at + 1;
  const bool moved = !slot.is_only_writer(process) || coarse_clock_moved(slot.coarse);
  if (moved || ++slot.unstamped >= kStampEvery) {
    const uint64_t before = slot.time;
    tag |= GPUPEAK_TAG_TIMED;
    const bool is_behind_event = !moved && slot.unstamped > kBehindEvent;
    const uint64_t now =
        is_behind_event ? slot.take_time_behind_event() : slot.take_stamp(process, clock);
    to = put_hot_varint(to, now - before);
  }
  const auto address = reinterpret_cast<uint64_t>(block);
  if (__builtin_expect((address & 15) == 0, 1)) {
    to = put_hot_varint(
        to, zigzag(static_cast<int64_t>(address >> 4) - static_cast<int64_t>(slot.address >> 4)));
  } else {
    tag |= GPUPEAK_TAG_UNALIGNED;
    to = put_hot_varint(to, zigzag(static_cast<int64_t>(address - slot.address)));
  }
  slot.address = address;
  return to;
}

/// Stores the tag last, so that a reader sees the whole record or none. `at`: the next byte to
/// write of the slot's heap or events chunk; it moves on to `end`.
inline void end_record(uint8_t*& at, uint8_t tag, uint8_t* end) {
  std::atomic_ref<uint8_t>(*at).store(tag, std::memory_order_release);
  at = end;
}

struct HeapBlock {
  const void* address;
  size_t bytes, usable_bytes;
  uint32_t node;  ///< of its stack
};

/// `clock`: ticks() or tsc().
inline __attribute__((always_inline)) void put_block(ProcessPage& process, ThreadSlot& slot,
                                                     uint8_t tag, const HeapBlock& block,
                                                     Clock clock) {
  uint8_t* to = begin_record(process, slot, tag, block.address, clock);
  to = put_hot_varint(to, block.bytes);
  // The slack is nearly always one byte.
  to = put_varint(to, zigzag(static_cast<int64_t>(block.usable_bytes - block.bytes)));
  to = put_hot_varint(to, block.node);
  end_record(slot.at, tag, to);
}

/// glibc gives a large block a mapping of its own, and the block begins two words behind a page's
/// begin. A small block can lie there by chance.
inline bool may_be_mapped_alone(const void* block) {
  return reinterpret_cast<uintptr_t>(block) % kPageBytes == 16;
}

inline __attribute__((always_inline)) void put_address(ProcessPage& process, ThreadSlot& slot,
                                                       uint8_t tag, const void* block,
                                                       Clock clock) {
  if (__builtin_expect(may_be_mapped_alone(block), 0)) slot.stamp_next();
  uint8_t* to = begin_record(process, slot, tag, block, clock);
  end_record(slot.at, tag, to);
}

// Writes an extended record (log_format.h) of a few numbers straight into the thread's chunk. For
// frequent events that are not the heap's, such as those of cuMemAllocAsync. Heap events are hot
// records. Rarer and longer records are built on the stack and copied (log/log.h). HOOK-SAFE,
// inside a HookScope.
//
//   chunk   … records │ tag │ length │ dt │ id │ bytes │ stack │ …room
//                       ▲ stored last, by end(): until then a reader sees filler there

class RecordInPlace {
 public:
  /// The record's time is now. False: the calling thread has no slot, or there is no room. Then the
  /// event is counted as dropped.
  __attribute__((always_inline)) RecordInPlace() : slot_(find_slot()) {
    if (__builtin_expect(slot_ == nullptr, 0)) return;
    time_ = slot_->event_stamp(*g_process);
    to_ = put_hot_varint(slot_->events.at + kHead, time_ - slot_->events.time);
  }
  explicit operator bool() const { return __builtin_expect(slot_ != nullptr, 1); }

  /// id() and u() add the next number, in the order that log_format.h gives; a dozen at most. id()
  /// is for numbers that are as likely to be large as small, like an id: those below 1 << 28 take
  /// no branch.
  __attribute__((always_inline)) RecordInPlace& id(uint64_t value) {
    to_ = put_hot_varint(to_, value);
    return *this;
  }
  __attribute__((always_inline)) RecordInPlace& u(uint64_t value) {
    to_ = put_wide_varint(to_, value);
    return *this;
  }

  /// The record's time, ticks.
  uint64_t time() const { return time_; }

  /// Readers see the record from here on. A jump out of the code before this leaves no record.
  __attribute__((always_inline)) void end(uint8_t tag) {
    uint8_t*& at = slot_->events.at;
    at[1] = static_cast<uint8_t>(to_ - (at + kHead));
    slot_->note_event(time_);
    end_record(at, tag, to_);
    // An unlock behind a record waits for the record's stores. So the place of the next records is
    // fetched into the cache ahead.
    arch::prefetch(reinterpret_cast<const char*>(to_) + 128);
  }

 private:
  static constexpr size_t kHead = 2;                  ///< the tag, and a length of one byte
  static constexpr size_t kMost = 0x7f;               ///< the largest length of one byte
  static constexpr size_t kRoom = kHead + kMost + 8;  ///< with the zeros of put_wide_varint()

  static __attribute__((always_inline)) ThreadSlot* find_slot() {
    ThreadSlot* const slot = thread_slot();
    if (__builtin_expect(slot == nullptr, 0)) {
      count(&gpupeak_counters_page::dropped_events);
      return nullptr;
    }
    const bool has_room = __builtin_expect(slot->events.has_room(kRoom), 1);
    return has_room || slot->refill_events(kRoom) ? slot : nullptr;
  }

  ThreadSlot* const slot_;
  uint64_t time_ = 0;
  uint8_t* to_ = nullptr;
};

// The calling thread's stack as a node of the log's trie. For callers that do not have the thread's
// slot at hand; the most frequent events have it. HOOK-SAFE, inside a HookScope.

/// They do what the functions of the same name in stack/stack.h do. 0 also if there was no memory
/// for a slot.
uint32_t capture_stack(const CallerFrame& caller);
uint32_t capture_call_site(const CallerFrame& caller);

/// Call it when memory in [begin, end) is about to be unmapped, or cannot be read any more: stacks
/// must not be read there.
void forget_stack_memory(uintptr_t begin, uintptr_t end);

}  // namespace gpupeak::preload
