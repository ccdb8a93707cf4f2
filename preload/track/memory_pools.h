// Memory pools: where each pool's memory lies, and how much the pool reserves. HOOK-SAFE; called by
// calls/ inside a DriverScope, outside any HookScope.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "gpupeak/log_format.h"
#include "track/api_call.h"

namespace gpupeak::preload {

/// Where a pool's memory lies.
struct PoolPlace {
  CUmemoryPool pool = nullptr;
  int device = -1;
  /// The kind of the pool's blocks; HOST_VMM and MANAGED pools exist, too.
  gpupeak_kind kind = GPUPEAK_KIND_POOL;
};
void pool_created(const PoolPlace& place);
struct PoolState {
  PoolPlace place;
  uint64_t reserved_bytes = 0;  ///< as logged last
};
/// Call it before a pool is destroyed: afterwards the pool must not be asked any more. Then call
/// exactly one of the next two.
PoolState pool_destroying(CUmemoryPool pool);
void pool_destroyed(const PoolState& state);
void pool_not_destroyed(const PoolState& state);
/// The place that a pool was created with. A pool that was never seen (a device's default pool) is
/// taken to be on `device`.
PoolPlace pool_place(CUmemoryPool pool, int device);
/// Counts and logs a successful allocation from `pool`. A pool that was never seen is taken to be
/// on `device`. `reserved_bytes`: what the pool reserves now. True if that differs from what was
/// logged last: then call pool_read(). One step, since this is the fastest call that allocates.
bool pool_allocated(const ApiCall& call, uint64_t value, uint64_t bytes, CUmemoryPool pool,
                    int device, uint64_t reserved_bytes);
/// Asks what the pool reserves now, and logs it if it has changed.
void pool_read(CUmemoryPool pool);
/// Call it after a synchronise, at which pools give back what they hold above their threshold.
/// Reads all pools that reserved something when last read.
void read_all_pools();

/// In a forked child. Holds the book's lock.
void forget_pools();

}  // namespace gpupeak::preload
