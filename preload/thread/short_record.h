// Records of a few numbers, written straight to where they stay in the thread's chunk: for what is
// frequent, but no heap event (hot_record.h). Rarer and longer ones are put together first
// (emit.h). HOOK-SAFE, inside a HookScope.
#pragma once

#include <atomic>
#include <cstdint>

#include "log/counters.h"
#include "log/record.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

/// The numbers of a record that is being written.
class Numbers {
 public:
  __attribute__((always_inline)) explicit Numbers(uint8_t* to) : to_(to) {}
  /// What is as likely to be large as small, like an id: below 1 << 28 without a branch.
  __attribute__((always_inline)) Numbers& id(uint64_t value) {
    to_ = put_hot_varint(to_, value);
    return *this;
  }
  __attribute__((always_inline)) Numbers& u(uint64_t value) {
    to_ = put_wide_varint(to_, value);
    return *this;
  }
  uint8_t* end() const { return to_; }

 private:
  uint8_t* to_;
};

/// Of all numbers of a short record, so that one byte is enough for their length.
constexpr size_t kMostOfShortRecord = 0x7f;
constexpr size_t kRoomOfShortRecord = 2 + kMostOfShortRecord + 8;  // put_wide_varint()'s zeros

/// The calling thread's slot with room for a short record; nullptr, and counted as dropped, if
/// there is none.
inline __attribute__((always_inline)) ThreadSlot* slot_for_short_record() {
  ThreadSlot* const slot = thread_slot();
  if (__builtin_expect(slot == nullptr, 0)) {
    count(&gpupeak_counters_page::dropped_events);
    return nullptr;
  }
  const bool has_room = __builtin_expect(slot->has_room(kRoomOfShortRecord), 1);
  return has_room || slot->refill(kRoomOfShortRecord) ? slot : nullptr;
}

/// A record, stamped now, whose numbers `put(Numbers&)` writes; a dozen at most. A jump out of it
/// leaves nothing.
template <typename Put>
__attribute__((always_inline)) inline void emit_short(uint8_t tag, Put put) {
  ThreadSlot* const slot = slot_for_short_record();
  if (__builtin_expect(slot == nullptr, 0)) return;
  const uint64_t time = slot->stamp(*g_process, ticks);
  uint8_t* const record = slot->at;
  uint8_t* const body = record + 2;
  Numbers numbers(put_hot_varint(body, time - slot->time));
  put(numbers);
  record[1] = static_cast<uint8_t>(numbers.end() - body);
  slot->time = time;
  std::atomic_ref<uint8_t>(*record).store(tag, std::memory_order_release);
  slot->at = numbers.end();
}

}  // namespace gpupeak::preload
