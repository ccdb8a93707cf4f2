// Driver calls for linear, pinned, managed and registered memory. hooks/cuda.cc instantiates them
// for the rows of cuda_table.def. Each gets the real function and its arguments, and returns the
// real function's result, or out of memory if a limit refuses the call (track/limit.h). HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "calls/allocate.h"

namespace gpupeak::preload::calls {

template <typename Real, typename Pointer, typename Size>
CUresult mem_alloc(const ApiCall& call, Real real, Pointer* out, Size bytes) {
  return allocate(
      call, KeySpace::kPointer, GPUPEAK_KIND_LINEAR, [&] { return real(out, bytes); },
      [&] { return value_of(*out); }, bytes);
}

template <typename Real, typename Pointer, typename Size>
CUresult mem_alloc_pitch(const ApiCall& call, Real real, Pointer* out, Size* pitch, Size width,
                         Size height, unsigned element_bytes) {
  DriverScope scope;
  const DeviceCall under_way;
  // The driver rounds rows up, to 512 bytes as far as is known.
  const uint64_t most = (static_cast<uint64_t>(width) + 4096) * height;
  const CUresult result = within_limit(scope, current_device, most, [&] {
    return real(out, pitch, width, height, element_bytes);
  });
  if (!scope.accounts()) return result;
  const int device = current_device();
  const uint64_t rows = height;
  if (result != CUDA_SUCCESS) {
    read_reserves_after_failure(call, GPUPEAK_KIND_LINEAR, result);
    device_failed(call, GPUPEAK_KIND_LINEAR, device, width * rows, result);
  } else {
    device_allocated(call, KeySpace::kPointer, value_of(*out),
                     {.bytes = *pitch * rows,
                      .context = current_context(),
                      .device = device,
                      .kind = GPUPEAK_KIND_LINEAR});
    read_all_pools();
    sample_driver_memory();
  }
  return result;
}

template <typename Real, typename Pointer>
CUresult mem_free(const ApiCall& call, Real real, Pointer at) {
  return release(call, KeySpace::kPointer, value_of(at), [&] { return real(at); });
}

template <typename Real, typename Size>
CUresult mem_alloc_host(const ApiCall& call, Real real, void** out, Size bytes) {
  return allocate(
      call, KeySpace::kPointer, GPUPEAK_KIND_PINNED, [&] { return real(out, bytes); },
      [&] { return value_of(*out); }, bytes);
}

template <typename Real>
CUresult mem_host_alloc(const ApiCall& call, Real real, void** out, size_t bytes, unsigned flags) {
  return allocate(
      call, KeySpace::kPointer, GPUPEAK_KIND_PINNED, [&] { return real(out, bytes, flags); },
      [&] { return value_of(*out); }, bytes);
}

template <typename Real>
CUresult mem_free_host(const ApiCall& call, Real real, void* at) {
  return release(call, KeySpace::kPointer, value_of(at), [&] { return real(at); });
}

template <typename Real>
CUresult mem_host_register(const ApiCall& call, Real real, void* at, size_t bytes, unsigned flags) {
  return allocate(
      call, KeySpace::kRegistered, GPUPEAK_KIND_REGISTERED, [&] { return real(at, bytes, flags); },
      [&] { return value_of(at); }, bytes);
}

template <typename Real>
CUresult mem_host_unregister(const ApiCall& call, Real real, void* at) {
  return release(call, KeySpace::kRegistered, value_of(at), [&] { return real(at); });
}

template <typename Real>
CUresult mem_alloc_managed(const ApiCall& call, Real real, CUdeviceptr* out, size_t bytes,
                           unsigned flags) {
  return allocate(
      call, KeySpace::kPointer, GPUPEAK_KIND_MANAGED, [&] { return real(out, bytes, flags); },
      [&] { return value_of(*out); }, bytes);
}

}  // namespace gpupeak::preload::calls
