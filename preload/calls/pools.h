// Driver calls for memory pools and for allocations in the order of a stream. hooks/cuda.cc
// instantiates them for the rows of cuda_table.def. Each gets the real function and its arguments,
// and returns the real function's result, or out of memory if a limit refuses the call
// (track/limit.h). HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "calls/allocate.h"

namespace gpupeak::preload::calls {

constexpr bool kPerThread = true;

/// `find_pool` finds the pool that the call takes from. A captured call gives addresses, but no
/// memory.
template <typename FindPool, typename Run>
CUresult allocate_async(const ApiCall& call, CUstream stream, bool per_thread, CUdeviceptr* out,
                        uint64_t bytes, FindPool find_pool, Run run) {
  DriverScope scope;
  const bool asks = scope.accounts() || (has_limits() && scope.is_outermost());
  const bool captured = asks && is_capturing(stream, per_thread);
  // A pool grows by 32 MiB and more at once. A captured call takes nothing.
  constexpr uint64_t kMostGrowth = 64 << 20;
  const CUresult result =
      captured ? run()
               : within_limit(
                     scope, [&] { return find_pool().device; }, bytes + kMostGrowth, run);
  if (!scope.accounts()) return result;
  if (captured && result == CUDA_SUCCESS) {
    device_noted(KeySpace::kPointer, *out, {.bytes = bytes, .kind = GPUPEAK_KIND_GRAPH});
    return result;
  }
  const PoolPlace from = captured ? PoolPlace{} : find_pool();
  if (result != CUDA_SUCCESS) {
    const PoolPlace place = pool_place(from.pool, from.device);
    read_reserves_after_failure(call, place.kind, result);
    device_failed(call, place.kind, place.device, bytes, result);
    return result;
  }
  const uint64_t reserved = pool_attribute(from.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  if (pool_allocated(call, *out, bytes, from.pool, from.device, reserved)) pool_read(from.pool);
  return result;
}

/// Takes from the current pool of the stream's device, whatever context is current.
template <bool kPtsz, typename Real>
CUresult mem_alloc_async(const ApiCall& call, Real real, CUdeviceptr* out, size_t bytes,
                         CUstream stream) {
  const auto find_pool = [&] {
    const int device = stream_device(stream, kPtsz);
    return PoolPlace{.pool = device_pool(device), .device = device};
  };
  return allocate_async(call, stream, kPtsz, out, bytes, find_pool,
                        [&] { return real(out, bytes, stream); });
}

template <bool kPtsz, typename Real>
CUresult mem_alloc_from_pool_async(const ApiCall& call, Real real, CUdeviceptr* out, size_t bytes,
                                   CUmemoryPool pool, CUstream stream) {
  const auto find_pool = [&] {
    return PoolPlace{.pool = pool, .device = stream_device(stream, kPtsz)};
  };
  return allocate_async(call, stream, kPtsz, out, bytes, find_pool,
                        [&] { return real(out, bytes, pool, stream); });
}

template <bool kPtsz, typename Real>
CUresult mem_free_async(const ApiCall& call, Real real, CUdeviceptr at, CUstream stream) {
  // A captured call may only free a graph's memory. That memory stays known, and is not counted
  // here.
  return release(call, KeySpace::kPointer, at, [&] { return real(at, stream); });
}

template <typename Real>
CUresult pool_create(const ApiCall&, Real real, CUmemoryPool* out,
                     const CUmemPoolProps* properties) {
  DriverScope scope;
  const CUresult result = real(out, properties);
  if (scope.accounts() && result == CUDA_SUCCESS) {
    // CU_MEM_ALLOCATION_TYPE_MANAGED, which headers before CUDA 13.0 lack.
    constexpr int kManaged = 2;
    const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    const bool managed = static_cast<int>(properties->allocType) == kManaged;
    pool_created({.pool = *out,
                  .device = on_device ? properties->location.id : kNoDevice,
                  .kind = managed     ? GPUPEAK_KIND_MANAGED
                          : on_device ? GPUPEAK_KIND_POOL
                                      : GPUPEAK_KIND_HOST_VMM});
  }
  return result;
}

/// Sets the pool that a device's allocations come from.
template <typename Real, typename... Arguments>
CUresult set_device_pool(const ApiCall&, Real real, Arguments... arguments) {
  const CUresult result = real(arguments...);
  forget_device_pools();
  return result;
}

template <typename Real>
CUresult pool_destroy(const ApiCall&, Real real, CUmemoryPool pool) {
  DriverScope scope;
  if (!scope.accounts()) return real(pool);
  read_unread_peaks();
  const PoolState state = pool_destroying(pool);
  const CUresult result = real(pool);
  forget_device_pools();
  if (result == CUDA_SUCCESS)
    pool_destroyed(state);
  else
    pool_not_destroyed(state);
  return result;
}

/// A synchronise of a stream, an event or a context. Its success shows that no capture forbids
/// questions to the driver.
template <typename Real, typename... Arguments>
CUresult synchronise(const ApiCall&, Real real, Arguments... arguments) {
  DriverScope scope;
  const CUresult result = real(arguments...);
  rest_limits();
  if (scope.accounts() && result == CUDA_SUCCESS) {
    read_all_pools();
    sample_driver_memory();
  }
  return result;
}

template <typename Real>
CUresult pool_trim(const ApiCall&, Real real, CUmemoryPool pool, size_t keep_bytes) {
  DriverScope scope;
  if (scope.accounts()) read_unread_peaks();
  const CUresult result = real(pool, keep_bytes);
  if (scope.accounts() && result == CUDA_SUCCESS) {
    pool_read(pool);
  }
  return result;
}

}  // namespace gpupeak::preload::calls
