// Driver calls that say how much memory a device has; with a limit they say less. hooks/cuda.cc
// instantiates them for the rows of cuda_table.def. Each gets the real function and its arguments,
// and always returns the real function's result. HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "calls/driver_scope.h"
#include "track/limit.h"

namespace gpupeak::preload::calls {

/// `bytes` as the call's integers hold it. In the first ABI they have 32 bits: then the largest
/// number stands for more.
template <typename Size>
Size narrowed(uint64_t bytes) {
  constexpr uint64_t kMost = static_cast<Size>(-1);
  return static_cast<Size>(bytes < kMost ? bytes : kMost);
}

template <typename Real, typename Size>
CUresult mem_get_info(const ApiCall&, Real real, Size* free, Size* total) {
  if (!has_limits()) return real(free, total);
  DriverScope scope;
  const CUresult result = real(free, total);
  if (!scope.is_outermost() || result != CUDA_SUCCESS) return result;
  rest_limits();
  uint64_t free_bytes = 0, total_bytes = 0;
  if (!visible_memory_info(free_bytes, total_bytes)) return result;
  if (free != nullptr) *free = narrowed<Size>(free_bytes);
  if (total != nullptr) *total = narrowed<Size>(total_bytes);
  return result;
}

template <typename Real, typename Size>
CUresult device_total(const ApiCall&, Real real, Size* out, CUdevice device) {
  if (!has_limits()) return real(out, device);
  DriverScope scope;
  const CUresult result = real(out, device);
  if (!scope.is_outermost() || result != CUDA_SUCCESS) return result;
  *out = narrowed<Size>(visible_device_total(device));
  return result;
}

}  // namespace gpupeak::preload::calls
