// Memory pools: where each pool's memory lies, and how much the pool reserves. HOOK-SAFE; called by
// calls/ inside a DriverScope, outside any HookScope.
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>

#include "base/compiler.h"
#include "gpupeak/log_format.h"
#include "track/driver.h"

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
/// the next one. `done`: the real call succeeded.
PoolState pool_destroying(CUmemoryPool pool);
void pool_destroyed(const PoolState& state, bool done);
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

// The memory that graphs reserve, which the driver reports as one figure for each device.
// HOOK-SAFE; called by calls/ inside a DriverScope, outside any HookScope.

/// Reads what a device's graphs reserve now. Each growth is a block of its own, with `call` as its
/// site.
void graph_reserve_read(const ApiCall& call, int device);
/// Whether this process has made graph memory at all; if not, the reserve need not be read.
bool has_graph_memory();
/// The process makes graph memory.
void note_graph_memory();
/// In a forked child. Holds the book's lock.
void forget_graph_memory();

// Which streams are being captured into graphs. Memory that an allocator takes from the driver
// during a capture is kept for that graph alone, so such blocks have a mark in the log. HOOK-SAFE.

/// A capture of `stream` has begun. `of_all_threads`: only threads that work for the capture may
/// allocate, so what any thread takes is for it. Else only the calling thread takes memory for it.
void capture_began(CUstream stream, bool of_all_threads);
/// The capture has ended or failed.
void capture_ended(CUstream stream);
extern constinit GPUPEAK_OWN std::atomic<uint32_t> g_open_captures;
bool is_captured_here();
/// Whether this thread takes memory from the driver for a graph now. One load if nothing is
/// captured.
inline bool allocates_for_capture() {
  return __builtin_expect(g_open_captures.load(std::memory_order_acquire) != 0, 0) &&
         is_captured_here();
}
/// In a forked child.
void forget_captures();

}  // namespace gpupeak::preload
