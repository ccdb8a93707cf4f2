// Writes an extended record (log_format.h) of a few numbers straight into the thread's chunk. For
// frequent events that are not the heap's, such as those of cuMemAllocAsync. Heap events are hot
// records (hot_record.h). Rarer and longer records are built on the stack and copied (log/record.h,
// emit.h). HOOK-SAFE, inside a HookScope.
//
//   chunk   … records │ tag │ length │ dt │ id │ bytes │ stack │ …room
//                       ▲ stored last, by end(): until then a reader sees filler there
#pragma once

#include <cstdint>

#include "base/arch.h"
#include "log/counters.h"
#include "log/record.h"
#include "thread/hot_record.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

class RecordInPlace {
 public:
  /// The calling thread's slot, with room for one record. nullptr if there is no slot or no room;
  /// then the event is counted as dropped.
  static __attribute__((always_inline)) ThreadSlot* find_slot() {
    ThreadSlot* const slot = thread_slot();
    if (__builtin_expect(slot == nullptr, 0)) {
      count(&gpupeak_counters_page::dropped_events);
      return nullptr;
    }
    const bool has_room = __builtin_expect(slot->events.has_room(kRoom), 1);
    return has_room || slot->refill_events(kRoom) ? slot : nullptr;
  }

  /// The record's time is now.
  __attribute__((always_inline)) explicit RecordInPlace(ThreadSlot& slot)
      : slot_(slot),
        time_(slot.event_stamp(*g_process)),
        to_(put_hot_varint(slot.events.at + kHead, time_ - slot.events.time)) {}

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
    uint8_t*& at = slot_.events.at;
    at[1] = static_cast<uint8_t>(to_ - (at + kHead));
    slot_.note_event(time_);
    end_record(at, tag, to_);
    // An unlock behind a record waits for the record's stores. So the place of the next records is
    // fetched into the cache ahead.
    arch::prefetch(reinterpret_cast<const char*>(to_) + 128);
  }

 private:
  static constexpr size_t kHead = 2;                  ///< the tag, and a length of one byte
  static constexpr size_t kMost = 0x7f;               ///< the largest length of one byte
  static constexpr size_t kRoom = kHead + kMost + 8;  ///< with the zeros of put_wide_varint()

  ThreadSlot& slot_;
  const uint64_t time_;
  uint8_t* to_;
};

}  // namespace gpupeak::preload
