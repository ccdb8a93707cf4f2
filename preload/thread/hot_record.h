// Writes heap events straight into the thread's chunk of the log. The caller has made sure that
// there is room: ThreadSlot::ready(). HOOK-SAFE, inside a HookScope.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/process_state.h"
#include "gpupeak/log_format.h"
#include "gpupeak/pages.h"
#include "log/record.h"
#include "thread/thread_slot.h"

namespace gpupeak::preload {

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

}  // namespace gpupeak::preload
