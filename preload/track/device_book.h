// The table of all live device memory, shared by the files of track/ that change it. One lock
// covers the blocks, the counters, an event's number and its record, so that all of them have the
// same order. HOOK-SAFE, inside a HookScope.
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
/// Counts and logs the end of a block, which stays in the book.
void log_free(const DeviceBlock& block, uint32_t api, uint32_t stack);
/// `block` in place of what the book has of its key; nullptr: there is no room.
bool replace_block(DeviceBlock* stale, DeviceBlock block, uint32_t api, uint32_t stack);
/// Puts a block into the book in place of what may have been there: then the old one's end was not
/// seen. False if the block is there already, or there is no room.
bool keep_block(uint64_t key, const DeviceBlock& block, uint32_t api, uint32_t stack);
/// Takes a block that is about to be freed, `known` as the book has it, out of the book, counts and
/// logs its end. False for nullptr. What stays: device_freeing() in track/device_memory.h.
bool take_block(DeviceBlock* known, DeviceBlock& block, uint32_t api, uint32_t stack);
/// It lives on after all.
void put_back_block(uint64_t key, const DeviceBlock& block);
/// Puts a new block into the book, counts and logs it.
void add_block(KeySpace space, uint64_t value, const DeviceBlock& block, uint32_t api,
               uint32_t stack);

}  // namespace gpupeak::preload
