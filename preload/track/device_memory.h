// All live device memory, and the events that change it. One lock covers the counters, the number
// of the event and its record, so that all three tell the same order. HOOK-SAFE; called by
// track/device_calls.h inside a DriverScope, outside any HookScope.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "gpupeak/log_format.h"
#include "stack/stack.h"

namespace gpupeak::preload {

/// Who calls the driver and what for.
struct ApiCall {
  const char* name;     ///< of the driver's function, without ABI suffix
  uint32_t* string_id;  ///< cache of its id in the log; 0: not yet
  CallerFrame caller;
};

/// Where a key is unique: pointers, array handles, registered ranges, reserved addresses, VMM
/// handles.
enum class KeySpace : uint64_t {
  kPointer = 0,
  kArray = 1,
  kRegistered = 2,
  kAddresses = 3,
  kHandle = 4,
  kGraphReserve = 5
};
inline uint64_t key_of(KeySpace space, uint64_t value) {
  return (static_cast<uint64_t>(space) << 60) ^ value;
}

struct DeviceBlock {
  uint64_t id = 0;  ///< 0: known but not counted, and not in the log (memory of a captured graph)
  uint64_t bytes = 0;
  CUcontext context = nullptr;  ///< whose end frees it; nullptr: none
  CUmemoryPool pool = nullptr;
  int device = -1;
  gpupeak_kind kind = GPUPEAK_KIND_NONE;
  uint32_t opens = 1;  ///< of imported memory: how often; each needs its own close
};

/// A successful allocation: counts and logs it. `block.id` is given here.
void device_allocated(const ApiCall& call, KeySpace space, uint64_t value, DeviceBlock block);
/// The same for a block that is not to be counted.
void device_noted(KeySpace space, uint64_t value, DeviceBlock block);

/// The block is about to be freed: taken out, counted and logged as free. False if it was never
/// seen. Memory of a captured graph stays known, since each launch makes it anew; and so does what
/// was opened more than once.
bool device_freeing(const ApiCall& call, KeySpace space, uint64_t value, DeviceBlock& block);
/// The real free failed after all: the block lives on.
void device_not_freed(KeySpace space, uint64_t value, const DeviceBlock& block);
/// What is known of a block; false if nothing.
bool device_find(KeySpace space, uint64_t value, DeviceBlock& block);
/// The real free of a pointer that was never seen succeeded.
void device_unknown_freed(const ApiCall& call, uint64_t value);

/// An allocation failed with `result`.
void device_failed(const ApiCall& call, gpupeak_kind kind, int device, uint64_t bytes,
                   CUresult result);

/// A context has ended: what it owned is free (linear, managed, pinned, registered, arrays).
void context_ended(const ApiCall& call, CUcontext context, gpupeak_context_event event);
void context_began(CUcontext context, int device);

/// Where a pool's memory lies.
struct PoolPlace {
  CUmemoryPool pool = nullptr;
  int device = -1;
  gpupeak_kind kind =
      GPUPEAK_KIND_POOL;  ///< of what it gives; HOST_VMM and MANAGED pools exist too
};
void pool_created(const PoolPlace& place);
/// Before the real call, after which a pool must not be asked any more; then exactly one of the
/// others.
struct PoolState {
  PoolPlace place;
  uint64_t reserved_bytes = 0;  ///< as logged last
};
PoolState pool_destroying(CUmemoryPool pool);
void pool_destroyed(const PoolState& state);
void pool_not_destroyed(const PoolState& state);
/// A pool's place as it was created with; for one never seen (a device's default pool) on `device`.
PoolPlace pool_place(CUmemoryPool pool, int device);
/// A successful allocation from `pool`, which is on `device` if it was never seen, and whose
/// reserve is now `reserved_bytes`. True if that differs from what was logged last: pool_read()
/// logs what it is now. One step, since this is the fastest call that allocates.
bool pool_allocated(const ApiCall& call, uint64_t value, uint64_t bytes, CUmemoryPool pool,
                    int device, uint64_t reserved_bytes);
void pool_read(CUmemoryPool pool);
/// After a synchronise, where pools give back what they hold above their threshold: reads all that
/// hold any.
void read_all_pools();

/// What a device's graphs hold by now. What it grew by is a block of its own, of the call that grew
/// it.
void graph_reserve_read(const ApiCall& call, int device);
/// Whether this process has made graph memory at all; if not, its reserve need not be asked for.
bool has_graph_memory();
/// Whether it has made managed memory.
bool has_managed_memory();

/// What the driver says is in use of a device; fields as in log_format.h.
struct DriverReading {
  int device = -1;
  gpupeak_reading_source source = GPUPEAK_READING_CUDA;
  gpupeak_ledger_cause cause = GPUPEAK_LEDGER_NONE;
  uint64_t used = 0;
  uint64_t reserved_plus_1 = 0, own_plus_1 = 0, others_plus_1 = 0;
  uint32_t overlaps = 0;
  uint64_t quiet_since = 0;       ///< DeviceCall's, from before the driver was asked
  uint32_t earlier_readings = 0;  ///< readings_logged() then
  uint32_t name = 0;              ///< string in the log
  const ApiCall* call = nullptr;  ///< that moved it; nullptr: none
};
/// A call that allocates or frees is under way: between its effect and its event a reading is not
/// to be trusted. Calls from pools do not count: they are many, and what pools hold seldom moves.
class DeviceCall {
 public:
  DeviceCall() { begun_.fetch_add(1, std::memory_order_acq_rel); }
  ~DeviceCall() { ended_.fetch_add(1, std::memory_order_acq_rel); }
  DeviceCall(const DeviceCall&) = delete;
  DeviceCall& operator=(const DeviceCall&) = delete;

  /// How many have begun, if none is under way; else a number that never comes again.
  static uint64_t quiet_since() {
    const uint64_t ended = ended_.load(std::memory_order_acquire);
    return begun_.load(std::memory_order_acquire) == ended ? ended : ~uint64_t{0};
  }
  static uint64_t begun() { return begun_.load(std::memory_order_acquire); }

 private:
  static inline constinit std::atomic<uint64_t> begun_{0}, ended_{0};
};

/// Inside a HookScope.
void log_driver_reading(const DriverReading& reading);
/// How many of the device's readings are in the log.
uint32_t readings_logged(int device);
/// A bit for each device whose tracked bytes have risen to a peak that no reading has met. A rise
/// of less than a thousandth is let pass, so that a slowly growing program is not read at each
/// step.
extern std::atomic<uint32_t> g_unread_peaks;
/// The driver cannot be asked about this device now.
void peak_is_not_readable(int device);
/// The device of a context that is alive; kNoDevice if it was never seen.
int device_of_context(CUcontext context);
/// Green contexts end no memory: only their device is kept, from creation to destruction.
void green_context_began(const void* green, int device);
int device_of_green_context(const void* green);
void green_context_ended(const void* green);

/// In a forked child: the parent's device memory is not ours.
void forget_device_memory();

}  // namespace gpupeak::preload
