// The table of all live device memory, shared by the files of track/ that use it. One lock covers
// the blocks, the counters, an event's number and its record, so that all of them have the same
// order. HOOK-SAFE, inside a HookScope.
#pragma once

#include <cstdint>

#include "base/compiler.h"
#include "base/hash_tables.h"
#include "base/lock.h"
#include "gpupeak/memory_kinds.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/device_memory.h"
#include "track/driver_readings.h"
#include "track/last_use.h"
#include "track/memory_pools.h"

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
  explicit BookGuard(bool wanted = true) : guard_(g_book.lock, wanted) {
    if (wanted && !guard_.is_held()) book_is_out_of_reach();
  }
  explicit operator bool() const { return guard_.is_held(); }

 private:
  const OpenLockGuard guard_;
};

// These two are inlined: a HookScope goes by the place on the stack where it was opened, which has
// to be in the frame of who holds it.

/// Holds the book's lock inside a HookScope. False: a nested call, or the lock could not be had.
class InBook {
 public:
  __attribute__((always_inline)) InBook() : guard_(scope_.entered()) {}
  explicit operator bool() const { return static_cast<bool>(guard_); }

 private:
  const HookScope scope_;
  const BookGuard guard_;
};

/// The same for what a driver call did; a nested one counts as dropped. Its function and its stack,
/// as records have them, are found out before the lock is taken, since that may call into the
/// loader.
class BookSite {
 public:
  __attribute__((always_inline)) explicit BookSite(const ApiCall& call)
      : api(scope_.entered() ? api_of(call) : 0),
        stack(scope_.entered() ? capture_stack(call.caller) : 0),
        guard_(scope_.entered()) {
    if (!scope_.entered()) count(&gpupeak_counters_page::dropped_events);
  }
  /// With Python's frames. The log has the device from here on.
  __attribute__((always_inline)) BookSite(const ApiCall& call, int device)
      : api(scope_.entered() ? (introduce_device(device), api_of(call)) : 0),
        stack(scope_.entered() ? capture_call_site(call.caller) : 0),
        guard_(scope_.entered()) {
    if (!scope_.entered()) count(&gpupeak_counters_page::dropped_events);
  }
  explicit operator bool() const { return static_cast<bool>(guard_); }

 private:
  const HookScope scope_;

 public:
  const uint32_t api, stack;

 private:
  const BookGuard guard_;
};

/// A device as the log has it: ordinal + 1, so that -1, the host, is 0.
inline uint64_t logged_device(int device) {
  return static_cast<uint64_t>(device + 1);
}

// Adds a block of device memory, or takes it away: in the table, in the counters
// page and in the log. Inlined, since that is most of what cuMemAllocAsync and cuMemFreeAsync cost.
// HOOK-SAFE, inside a HookScope, with the table's lock held.

/// The lock makes us the only writer of these numbers. Others only read them, so a store that is
/// not torn is enough.
inline void store(uint64_t& to, uint64_t value) {
  __atomic_store_n(&to, value, __ATOMIC_RELAXED);
}

/// Adds `bytes` to a gauge. The window's peak is never above the gauge's own peak, so that one
/// comparison does for both. `live` is stored last: begin_window() takes it as the window's peak,
/// so the gauge's peak must be up to date before.
inline void move(gpupeak_gauge& gauge, int64_t bytes) {
  const uint64_t live = gauge.live + static_cast<uint64_t>(bytes);
  if (bytes > 0) {
    uint64_t& window = window_peak_of(gauge);
    if (live > window) {
      if (live > gauge.peak) store(gauge.peak, live);
      store(window, live);
    }
  }
  store(gauge.live, live);
}

/// Moves the gauges that some kinds have for all devices together.
inline void move_common_gauge(MemoryKind::Counter counter, int64_t bytes) {
  using Counter = MemoryKind::Counter;
  gpupeak_counters_page& page = counters();
  if (counter == Counter::Pinned) move(page.pinned, bytes);
  if (counter == Counter::Registered) move(page.registered, bytes);
  if (counter == Counter::Managed) move(page.managed, bytes);
}

/// Adds a block's bytes (> 0), or takes them away, in the counters page.
__attribute__((always_inline)) inline void move_gauges(const DeviceBlock& block, int64_t bytes) {
  gpupeak_counters_page& page = counters();
  const auto device = static_cast<uint32_t>(block.device);
  if (__builtin_expect(!memory_kinds::is_plain(block.kind), 0)) {
    move_common_gauge(memory_kinds::kCounters.of[block.kind], bytes);
    if (is_device_kind(block.kind) && has_counters(block.device))
      move(device_gauge(page, device, block.kind), bytes);
    return;
  }
  if (!has_counters(block.device)) return;
  move(page.device[device].kind[block.kind - GPUPEAK_FIRST_DEVICE_KIND], bytes);
  gpupeak_gauge& total = page.device[device].total;
  move(total, bytes);
  if (bytes > 0) note_tracked_bytes(block.device, total.live);
}

/// The number of a device event. The caller logs the event at once.
inline uint64_t next_number() {
  store(counters().device_events, counters().device_events + 1);
  return g_book.next_seq++;
}

/// A record with the next number of a device event. The caller emits it at once.
template <typename... Fields>
Record numbered(uint8_t tag, const Fields&... fields) {
  return Record{tag, next_number(), fields...};
}

/// For a key that the table has already: `block` takes the place of `stale`, whose end was not
/// seen. Imported memory is only opened once more. `stale` nullptr: the table is full. True:
/// `block` is in the table.
bool replace_block(DeviceBlock* stale, DeviceBlock block, uint32_t api, uint32_t stack);
/// Records the uses of a block from here on. It is in the table by `key`.
void follow_use(uint64_t key, const DeviceBlock& block);
/// Makes a block live again whose free failed after it was logged.
void put_back_block(uint64_t key, const DeviceBlock& block);

/// Puts a block into the table, without counting or logging it. False if it is not in the table:
/// see replace_block().
__attribute__((always_inline)) inline bool keep_block(uint64_t key, const DeviceBlock& block,
                                                      uint32_t api, uint32_t stack) {
  bool is_new;
  DeviceBlock* const place = g_book.blocks.room_for(key, is_new);
  if (__builtin_expect(!is_new, 0)) return replace_block(place, block, api, stack);
  *place = block;
  g_book.blocks.enter(key, place);
  return true;
}

/// Puts a new block into the table, counts it and logs it.
__attribute__((always_inline)) inline void add_block(KeySpace space, uint64_t value,
                                                     DeviceBlock block, uint32_t api,
                                                     uint32_t stack) {
  block.id = g_book.next_id++;
  if (!keep_block(key_of(space, value), block, api, stack)) return;
  if ((space == KeySpace::kPointer || space == KeySpace::kArray) && watches_uses())
    follow_use(key_of(space, value), block);
  move_gauges(block, static_cast<int64_t>(block.bytes));
  if (has_counters(block.device)) {
    uint64_t& allocations = counters().device[block.device].alloc_count;
    store(allocations, allocations + 1);
  }
  const uint64_t number = next_number();
  RecordInPlace record;
  if (!record) return;
  record.id(number).id(block.id).u(block.kind).u(logged_device(block.device)).u(value);
  record.id(block.bytes).u(api).id(stack);
  record.u(reinterpret_cast<uint64_t>(block.context)).u(reinterpret_cast<uint64_t>(block.pool));
  record.u(allocates_for_capture() ? 1 : 0).end(GPUPEAK_REC_DEVICE_ALLOC);
}

/// Counts and logs the end of a block. The block stays in the table.
__attribute__((always_inline)) inline void log_free(const DeviceBlock& block, uint32_t api,
                                                    uint32_t stack) {
  if (block.id == 0) return;
  if (__builtin_expect(block.use != 0, 0)) use_ended(block.use);
  move_gauges(block, -static_cast<int64_t>(block.bytes));
  const uint64_t number = next_number();
  RecordInPlace record;
  if (!record) return;
  record.id(number).id(block.id).u(api).id(stack).end(GPUPEAK_REC_DEVICE_FREE);
}

/// Takes a block that is about to be freed out of the table, and counts and logs its end. `known`:
/// its place in the table; nullptr: returns false. `block` becomes what the table had. Two sorts of
/// blocks stay in the table: device_freeing() in device_memory.h says which.
__attribute__((always_inline)) inline bool take_block(DeviceBlock* known, DeviceBlock& block,
                                                      uint32_t api, uint32_t stack) {
  if (known == nullptr) return false;
  block = *known;
  if (known->id == 0) return true;
  if (known->opens > 1) {
    --known->opens;
    return true;
  }
  g_book.blocks.erase(known);
  log_free(block, api, stack);
  return true;
}

}  // namespace gpupeak::preload
