// The table of all live device memory, shared by the files of track/ that use it; block_events.h
// changes it. One lock covers the blocks, the counters, an event's number and its record, so that
// all of them have the same order. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "base/flat_map.h"
#include "base/futex_lock.h"
#include "base/hot.h"
#include "log/record.h"
#include "track/device_memory.h"

namespace gpupeak::preload {

struct DeviceBook {
  FutexLock lock;  ///< for all members below; a BookGuard holds it
  FlatMap<DeviceBlock> blocks;
  uint64_t next_id = 1;
  uint64_t next_seq = 1;
};
extern constinit GPUPEAK_OWN DeviceBook g_book;

/// Counts an event that was not recorded, since the book's lock could not be had.
void book_is_out_of_reach();

/// Holds the book's lock. False: it could not be had, and the call is not recorded.
class BookGuard {
 public:
  BookGuard() : guard_(g_book.lock) {
    if (!guard_.is_held()) book_is_out_of_reach();
  }
  explicit operator bool() const { return guard_.is_held(); }

 private:
  const OpenLockGuard guard_;
};

/// A device as the log has it: ordinal + 1, so that -1, the host, is 0.
inline uint64_t logged_device(int device) {
  return static_cast<uint64_t>(device + 1);
}

/// A record with the next number of a device event. The caller emits it at once.
Record numbered(uint8_t tag);

}  // namespace gpupeak::preload
