// Keeps account of all live device memory. calls/ calls it inside a DriverScope, outside any
// HookScope. HOOK-SAFE.
//
// in    what a driver call did: "cuMemAlloc gave 1 MiB at 0x7f…, on GPU 0"
// out   the table of live blocks, the gauges of the counters page, and a numbered record in the log
//
//   call                            table     gauge        log
//   device_allocated(0x7f…, 1 MiB)  block 5   1 MiB live   12 DEVICE_ALLOC id 5
//   device_freeing(0x7f…)           nothing   0 live       13 DEVICE_FREE id 5
//
// One lock covers all three, so that all three have the same order.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "gpupeak/log_format.h"
#include "log/log.h"
#include "track/driver.h"
#include "track/driver_readings.h"

namespace gpupeak::preload {

// Keeps which device each context is on, and frees what ends with a context. HOOK-SAFE; called by
// calls/ inside a DriverScope, outside any HookScope.

/// A context has ended: blocks of the kinds that end with their context are free (linear, managed,
/// pinned, registered, arrays; memory_kinds.def).
void context_ended(const ApiCall& call, CUcontext context, gpupeak_context_event event);
void context_began(CUcontext context, int device);

/// The device of a context that is alive, perhaps a green one; kNoDevice if it was never seen.
int device_of_context(const void* context);
/// The end of a green context frees nothing. Only its device is kept, from creation to destruction.
void green_context_began(const void* green, int device);
void green_context_ended(const void* green);

/// Which sort of value a block is found by: a pointer, an array handle, a registered range,
/// reserved addresses, a VMM handle, or a device's growth of graph memory. Values of two sorts may
/// be equal.
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
  CUcontext context = nullptr;  ///< the context whose end frees it; nullptr: none
  CUmemoryPool pool = nullptr;
  int device = -1;
  gpupeak_kind kind = GPUPEAK_KIND_NONE;
  uint32_t opens = 1;  ///< how often imported memory was opened; each needs its own close
  uint32_t use = 0;    ///< its number in track/last_use; 0: its uses are not recorded
};

/// Counts and logs a successful allocation. `block.id` is given here.
void device_allocated(const ApiCall& call, KeySpace space, uint64_t value, DeviceBlock block);
/// Makes a block known that is neither counted nor logged.
void device_noted(KeySpace space, uint64_t value, DeviceBlock block);

/// A block is about to be freed: takes it out of the table, and counts and logs it as free. False
/// if it was never seen. Memory of a captured graph stays known, since each launch makes it anew.
/// Imported memory stays until its last close. `under_way` begins, unless the block is a pool's.
bool device_freeing(const ApiCall& call, KeySpace space, uint64_t value, DeviceBlock& block,
                    DeviceCall& under_way);
/// The real free failed after all: the block lives on.
void device_not_freed(KeySpace space, uint64_t value, const DeviceBlock& block);
/// What is known of a block; false if nothing.
bool device_find(KeySpace space, uint64_t value, DeviceBlock& block);
/// The real free of a pointer that was never seen succeeded. `gives_back_plus_1`: see driver.h.
void device_unknown_freed(const ApiCall& call, uint64_t value, uint64_t gives_back_plus_1);

/// An allocation failed with `result`. Kind NONE and 0 bytes: the call takes memory for the
/// driver's own use.
void device_failed(const ApiCall& call, gpupeak_kind kind, int device, uint64_t bytes,
                   CUresult result);

/// In a forked child: the parent's device memory is not ours.
void forget_device_memory();

}  // namespace gpupeak::preload
