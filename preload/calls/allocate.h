// The common part of the driver calls of all families: run the real function, then tell track/ what
// was allocated or freed. Templates, since the ABI versions of a call differ only in the width of
// integers. HOOK-SAFE.
//
//   mem_alloc(call, real, out, bytes)      one line in linear.h, for cuMemAlloc and cuMemAlloc_v2
//     └ allocate(…)                        DriverScope → real(out, bytes) → device_allocated(…)
#pragma once

#include <cuda.h>

#include <cstdint>

#include "base/elf_lookup.h"
#include "calls/driver_scope.h"
#include "track/device_memory.h"
#include "track/driver.h"
#include "track/driver_readings.h"
#include "track/graph_memory.h"
#include "track/ledger.h"
#include "track/limit.h"
#include "track/memory_pools.h"

namespace gpupeak::preload::calls {

inline uint64_t value_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}
inline uint64_t value_of(uint64_t pointer) {
  return pointer;
}

/// If memory is short, the driver takes back what pools and graphs hold in reserve. This reads the
/// reserves. It is called before the failure is logged, so that the log has what was left then.
/// Pools may be asked only after a call that breaks a capture as an allocation does (driver.h).
/// Graphs' reserves may always be asked for.
inline void read_reserves_after_failure(const ApiCall& call, gpupeak_kind kind, CUresult result) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return;
  if (kind == GPUPEAK_KIND_LINEAR || kind == GPUPEAK_KIND_POOL) read_all_pools();
  const int device = has_graph_memory() ? current_device() : kNoDevice;
  if (device != kNoDevice) graph_reserve_read(call, device);
}

/// Whether an allocation of this kind takes the device's memory at once. Managed memory does not:
/// its pages come when they are touched, and go when there is no room.
constexpr bool takes_device_memory(gpupeak_kind kind) {
  return kind == GPUPEAK_KIND_LINEAR || kind == GPUPEAK_KIND_ARRAY;
}

/// The common shape of an allocation: calls `run`, then counts and logs the block, or the failure.
/// `value()`: the new block's address or handle.
template <typename Run, typename Value>
CUresult allocate(const ApiCall& call, KeySpace space, gpupeak_kind kind, Run run, Value value,
                  uint64_t bytes) {
  DriverScope scope;
  const DeviceCall under_way;
  const CUresult result =
      takes_device_memory(kind) ? within_limit(scope, current_device, bytes, run) : run();
  if (!scope.accounts()) return result;
  const int device = current_device();
  if (result != CUDA_SUCCESS) {
    read_reserves_after_failure(call, kind, result);
    device_failed(call, kind, device, bytes, result);
  } else {
    device_allocated(
        call, space, value(),
        {.bytes = bytes, .context = current_context(), .device = device, .kind = kind});
    if (kind == GPUPEAK_KIND_LINEAR)
      read_all_pools();  // the driver may have taken from their reserves
    sample_driver_memory();
  }
  return result;
}

/// Whether the block is managed memory. Looks it up only if the process has made managed memory.
inline bool is_managed(KeySpace space, uint64_t value, DeviceBlock& block) {
  return has_managed_memory() && space == KeySpace::kPointer && device_find(space, value, block) &&
         block.kind == GPUPEAK_KIND_MANAGED;
}

/// Bytes that the free of an unknown block gives back, + 1; 0: not known. Only of an attached
/// program, whose memory from before the attach is not known.
inline uint64_t ask_what_goes(KeySpace space, uint64_t value) {
  if (!came_late()) return 0;
  if (space == KeySpace::kPointer) return gives_back_plus_1(value);
  return space == KeySpace::kRegistered || space == KeySpace::kAddresses ? 1 : 0;
}

enum class Frees : uint8_t { kOwn, kImported };
/// The common shape of a free. The block is taken out of the table before the real call, since
/// another thread may get the same address before the call returns. If the call fails, the block is
/// put back.
template <typename Run>
CUresult release(const ApiCall& call, KeySpace space, uint64_t value, Run run,
                 Frees frees = Frees::kOwn) {
  DriverScope scope;
  if (!scope.accounts() || value == 0) return run();
  read_unread_peaks();
  LedgerBracket bracket;
  DeviceBlock block;
  if (is_managed(space, value, block)) bracket.open(call, GPUPEAK_LEDGER_MANAGED, block.device);
  DeviceCall under_way{DeviceCall::kNotYet};
  const bool known = device_freeing(call, space, value, block, under_way);
  const uint64_t gives_back = known                       ? 0
                              : frees == Frees::kImported ? 1
                                                          : ask_what_goes(space, value);
  const CUresult result = run();
  rest_limits();
  if (known && result != CUDA_SUCCESS) device_not_freed(space, value, block);
  if (!known && result == CUDA_SUCCESS) device_unknown_freed(call, value, gives_back);
  return result;
}

}  // namespace gpupeak::preload::calls
