// Memory pools: where each lies, and what it holds in reserve. HOOK-SAFE; called by calls/ inside a
// DriverScope, outside any HookScope.
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
  /// The kind of its blocks; HOST_VMM and MANAGED pools exist, too.
  gpupeak_kind kind = GPUPEAK_KIND_POOL;
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

/// In a forked child. Holds the book's lock.
void forget_pools();

}  // namespace gpupeak::preload
