// Driver calls for memory that is created and mapped by separate calls, and for memory of another
// process or interface. hooks/cuda.cc instantiates them for the rows of cuda_table.def. Each gets
// the real function and its arguments, and returns the real function's result, or out of memory if
// a limit refuses the call (track/limit.h). HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "calls/allocate.h"
#include "track/virtual_memory.h"

namespace gpupeak::preload::calls {

template <typename Real>
CUresult mem_create(const ApiCall& call, Real real, CUmemGenericAllocationHandle* out, size_t bytes,
                    const CUmemAllocationProp* properties, unsigned long long flags) {
  DriverScope scope;
  const DeviceCall under_way;
  const bool on_device =
      properties != nullptr && properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const auto run = [&] { return real(out, bytes, properties, flags); };
  const CUresult result =
      on_device ? within_limit(scope, [&] { return properties->location.id; }, bytes, run) : run();
  if (!scope.accounts() || properties == nullptr) return result;
  const gpupeak_kind kind = on_device ? GPUPEAK_KIND_VMM : GPUPEAK_KIND_HOST_VMM;
  const int device = on_device ? properties->location.id : kNoDevice;
  if (result == CUDA_SUCCESS) {
    vmm_created(call, *out, kind, device, bytes);
    sample_driver_memory();
  } else {
    read_reserves_after_failure(call, kind, result);
    device_failed(call, kind, device, bytes, result);
  }
  return result;
}

template <typename Real>
CUresult mem_import(const ApiCall& call, Real real, CUmemGenericAllocationHandle* out,
                    void* os_handle, CUmemAllocationHandleType type) {
  DriverScope scope;
  const CUresult result = real(out, os_handle, type);
  if (scope.accounts() && result == CUDA_SUCCESS)
    vmm_created(call, *out, GPUPEAK_KIND_IMPORTED, current_device(), 0);
  return result;
}

template <typename Real>
CUresult mem_retain_handle(const ApiCall&, Real real, CUmemGenericAllocationHandle* out, void* at) {
  DriverScope scope;
  const CUresult result = real(out, at);
  if (scope.accounts() && result == CUDA_SUCCESS) vmm_retained(*out);
  return result;
}

template <typename Real>
CUresult mem_release(const ApiCall& call, Real real, CUmemGenericAllocationHandle handle) {
  DriverScope scope;
  if (!scope.accounts()) return real(handle);
  read_unread_peaks();
  const DeviceCall under_way;
  const bool known = vmm_releasing(call, handle);
  const CUresult result = real(handle);
  if (known) result == CUDA_SUCCESS ? vmm_released(handle) : vmm_not_released(handle);
  if (!known && result == CUDA_SUCCESS && came_late()) device_unknown_freed(call, handle, 0);
  return result;
}

template <typename Real>
CUresult mem_map(const ApiCall& call, Real real, CUdeviceptr at, size_t bytes, size_t offset,
                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
  DriverScope scope;
  if (!scope.accounts()) return real(at, bytes, offset, handle, flags);
  vmm_mapping(handle);
  const CUresult result = real(at, bytes, offset, handle, flags);
  result == CUDA_SUCCESS ? vmm_mapped(at, bytes, handle) : vmm_not_mapped(call, handle);
  return result;
}

template <typename Real>
CUresult mem_unmap(const ApiCall& call, Real real, CUdeviceptr at, size_t bytes) {
  DriverScope scope;
  if (!scope.accounts()) return real(at, bytes);
  read_unread_peaks();
  const DeviceCall under_way;
  vmm_unmapping(call, at, bytes);
  const CUresult result = real(at, bytes);
  if (result == CUDA_SUCCESS)
    vmm_unmapped(at, bytes);
  else
    vmm_not_unmapped(at, bytes);
  return result;
}

template <typename Real>
CUresult address_reserve(const ApiCall& call, Real real, CUdeviceptr* out, size_t bytes,
                         size_t alignment, CUdeviceptr wanted, unsigned long long flags) {
  return allocate(
      call, KeySpace::kAddresses, GPUPEAK_KIND_VMM_VA,
      [&] { return real(out, bytes, alignment, wanted, flags); }, [&] { return value_of(*out); },
      bytes);
}

template <typename Real>
CUresult address_free(const ApiCall& call, Real real, CUdeviceptr at, size_t bytes) {
  return release(call, KeySpace::kAddresses, at, [&] { return real(at, bytes); });
}

/// A buffer in imported memory. cuMemFree ends it.
template <typename Real>
CUresult external_buffer(const ApiCall& call, Real real, CUdeviceptr* out, CUexternalMemory memory,
                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* descriptor) {
  return allocate(
      call, KeySpace::kPointer, GPUPEAK_KIND_IMPORTED,
      [&] { return real(out, memory, descriptor); }, [&] { return value_of(*out); },
      descriptor != nullptr ? descriptor->size : 0);
}

/// Opens memory of another process, or of one of its pools. If it is opened again, its bytes count
/// once, and each open needs its own close.
template <typename Run>
CUresult import_pointer(const ApiCall& call, CUdeviceptr* out, Run run) {
  DriverScope scope;
  const CUresult result = run();
  if (scope.accounts() && result == CUDA_SUCCESS) {
    device_allocated(
        call, KeySpace::kPointer, *out,
        {.bytes = bytes_at(*out), .device = current_device(), .kind = GPUPEAK_KIND_IMPORTED});
  }
  return result;
}

template <typename Real>
CUresult ipc_open(const ApiCall& call, Real real, CUdeviceptr* out, CUipcMemHandle handle,
                  unsigned flags) {
  return import_pointer(call, out, [&] { return real(out, handle, flags); });
}

template <typename Real>
CUresult ipc_close(const ApiCall& call, Real real, CUdeviceptr at) {
  const auto run = [&] { return real(at); };
  return release(call, KeySpace::kPointer, at, run, Frees::kImported);
}

template <typename Real, typename Data>
CUresult pool_import_pointer(const ApiCall& call, Real real, CUdeviceptr* out, CUmemoryPool pool,
                             Data* data) {
  return import_pointer(call, out, [&] { return real(out, pool, data); });
}

}  // namespace gpupeak::preload::calls
