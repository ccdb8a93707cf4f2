// Records of a few numbers, written straight to where they stay in the thread's chunk: for what is
// frequent, but no heap event (hot_record.h). Rarer and longer ones are put together first
// (emit.h). HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "base/arch.h"
#include "log/counters.h"
#include "log/record.h"
#include "thread/hot_record.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

class ShortRecord {
 public:
  /// The calling thread's slot with room for one; nullptr, and counted as dropped, if there is
  /// none.
  static __attribute__((always_inline)) ThreadSlot* find_slot() {
    ThreadSlot* const slot = thread_slot();
    if (__builtin_expect(slot == nullptr, 0)) {
      count(&gpupeak_counters_page::dropped_events);
      return nullptr;
    }
    const bool has_room = __builtin_expect(slot->has_room(kRoom), 1);
    return has_room || slot->refill(kRoom) ? slot : nullptr;
  }

  /// Stamped now.
  __attribute__((always_inline)) explicit ShortRecord(ThreadSlot& slot)
      : slot_(slot),
        time_(slot.stamp(*g_process, ticks)),
        to_(put_hot_varint(slot.at + kHead, time_ - slot.time)) {}

  /// A dozen numbers at most, in the order that log_format.h gives. What is as likely to be large
  /// as small, like an id: below 1 << 28 without a branch.
  __attribute__((always_inline)) ShortRecord& id(uint64_t value) {
    to_ = put_hot_varint(to_, value);
    return *this;
  }
  __attribute__((always_inline)) ShortRecord& u(uint64_t value) {
    to_ = put_wide_varint(to_, value);
    return *this;
  }

  /// It counts from here on: a jump out of it before has left nothing.
  __attribute__((always_inline)) void end(uint8_t tag) {
    slot_.at[1] = static_cast<uint8_t>(to_ - (slot_.at + kHead));
    slot_.time = time_;
    end_record(slot_, tag, to_);
    // Who unlocks behind a record waits for its stores: the next ones' place is brought in ahead.
    arch::prefetch(reinterpret_cast<const char*>(to_) + 128);
  }

 private:
  static constexpr size_t kHead = 2;                  ///< tag and length, which so takes one byte
  static constexpr size_t kMost = 0x7f;               ///< of the length
  static constexpr size_t kRoom = kHead + kMost + 8;  ///< and put_wide_varint()'s zeros

  ThreadSlot& slot_;
  const uint64_t time_;
  uint8_t* to_;
};

}  // namespace gpupeak::preload
