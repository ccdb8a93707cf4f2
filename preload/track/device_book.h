// The table of all live device memory, shared by the files of track/ that change it. One lock
// covers the blocks, the counters, an event's number and its record, so that all of them have the
// same order. block_events.h changes it. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "base/flat_map.h"
#include "base/futex_lock.h"
#include "base/hot.h"
#include "log/record.h"
#include "track/device_memory.h"

namespace gpupeak::preload {

struct DeviceBook {
  FutexLock lock;  ///< held for all that follows, by a BookGuard
  FlatMap<DeviceBlock> blocks;
  uint64_t next_id = 1;
  uint64_t next_seq = 1;
};
extern constinit GPUPEAK_OWN DeviceBook g_book;

/// Counts what was not recorded since the book's lock could not be had.
void book_is_out_of_reach();

/// Around all that the book's lock covers. False: it could not be had, and the call passes through.
class BookGuard {
 public:
  BookGuard() : guard_(g_book.lock) {
    if (!guard_.is_held()) book_is_out_of_reach();
  }
  explicit operator bool() const { return guard_.is_held(); }

 private:
  const OpenLockGuard guard_;
};

/// A device, or the host, as the log has it.
inline uint64_t logged_device(int device) {
  return static_cast<uint64_t>(device + 1);
}

/// A record with the next number, to be emitted at once.
Record numbered(uint8_t tag);

}  // namespace gpupeak::preload
