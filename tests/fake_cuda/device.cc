// Devices: their names and their memory.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "config.h"
#include "export.h"

namespace fake_cuda {
namespace {

CUresult device_count(int* out) {
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = config().devices;
  return CUDA_SUCCESS;
}

CUresult device_get(CUdevice* out, int ordinal) {
  if (device_of(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out = ordinal;
  return CUDA_SUCCESS;
}

CUresult device_name(char* out, int bytes, CUdevice device) {
  if (device_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  // This allocates from the heap, as the real driver does for some questions.
  const std::string name = "Simulated GPU, number " + std::to_string(device);
  snprintf(out, static_cast<size_t>(bytes), "%s", name.c_str());
  return CUDA_SUCCESS;
}

CUresult device_uuid(CUuuid* out, CUdevice device) {
  if (device_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  for (int i = 0; i < 16; ++i) out->bytes[i] = static_cast<char>(i == 15 ? device : 0x10 + i);
  return CUDA_SUCCESS;
}

template <typename Size>
CUresult total_memory(Size* out, CUdevice device) {
  if (device_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out = static_cast<Size>(std::min<uint64_t>(config().memory_bytes, static_cast<Size>(-1)));
  return CUDA_SUCCESS;
}

CUresult attribute(int* out, CUdevice_attribute which, CUdevice device) {
  if (device_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  errno = EAGAIN;  // the real driver changes errno, too
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *out = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
      *out = 0;
      break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *out = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *out = 1024;
      break;
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      *out = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
      *out = 32;
      break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
      *out = 1;
      break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
      *out = config().integrated;
      break;
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
      *out = config().coherent;
      break;
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
      *out = !config().integrated;
      break;
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
      *out = 0x10 + device;
      break;
    default:
      *out = 0;
  }
  return CUDA_SUCCESS;
}

CUresult pci_bus_id(char* out, int bytes, CUdevice device) {
  if (device_of(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(out, static_cast<size_t>(bytes), "0000:%02x:00.0", 0x10 + device);
  return CUDA_SUCCESS;
}

CUresult by_pci_bus_id(CUdevice* out, const char* id) {
  for (int ordinal = 0; ordinal < config().devices; ++ordinal) {
    char expected[32];
    pci_bus_id(expected, sizeof expected, ordinal);
    if (strcmp(expected, id) != 0) continue;
    *out = ordinal;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

}  // namespace

// For the simulated NVML, and for programs under test.
#define FAKE_CUDA_CONTROL extern "C" __attribute__((visibility("default")))
FAKE_CUDA_CONTROL int fake_cuda_device_count();
FAKE_CUDA_CONTROL int fake_cuda_is_integrated();
FAKE_CUDA_CONTROL int fake_cuda_process(int device);
FAKE_CUDA_CONTROL unsigned long long fake_cuda_total(int device);
FAKE_CUDA_CONTROL unsigned long long fake_cuda_used(int device);
FAKE_CUDA_CONTROL unsigned long long fake_cuda_used_by_others(int device);
FAKE_CUDA_CONTROL void fake_cuda_set_others(int device, unsigned long long bytes);

int fake_cuda_device_count() {
  return config().devices;
}
int fake_cuda_is_integrated() {
  return config().integrated;
}
/// Which process has the driver.
int fake_cuda_process(int device) {
  return figures_of(device).pid;
}
unsigned long long fake_cuda_total(int) {
  return config().memory_bytes;
}
unsigned long long fake_cuda_used(int device) {
  const std::lock_guard guard(driver().lock);
  const Device* const found = device_of(device);
  if (found != nullptr) return in_use(*found);
  return figures_of(device).pid != 0 ? figures_of(device).taken : config().others_bytes;
}
unsigned long long fake_cuda_used_by_others(int device) {
  const std::lock_guard guard(driver().lock);
  const Device* const found = device_of(device);
  return found != nullptr || figures_of(device).pid != 0 ? figures_of(device).others
                                                         : config().others_bytes;
}
/// Another process takes memory or gives it back.
void fake_cuda_set_others(int device, unsigned long long bytes) {
  const std::lock_guard guard(driver().lock);
  Figures& found = figures_of(device);
  found.taken += bytes - found.others;
  found.others = bytes;
}

FAKE_CUDA_EXPORT(cuDeviceGetCount, "cuDeviceGetCount", 2000, device_count, (int* out), (out))
FAKE_CUDA_EXPORT(cuDeviceGet, "cuDeviceGet", 2000, device_get, (CUdevice * out, int ordinal),
                 (out, ordinal))
FAKE_CUDA_EXPORT(cuDeviceGetName, "cuDeviceGetName", 2000, device_name,
                 (char* out, int bytes, CUdevice device), (out, bytes, device))
FAKE_CUDA_EXPORT(cuDeviceGetUuid, "cuDeviceGetUuid", 9020, device_uuid,
                 (CUuuid * out, CUdevice device), (out, device))
FAKE_CUDA_EXPORT(cuDeviceGetUuid_v2, "cuDeviceGetUuid", 11040, device_uuid,
                 (CUuuid * out, CUdevice device), (out, device))
FAKE_CUDA_EXPORT(cuDeviceTotalMem, "cuDeviceTotalMem", 2000, total_memory,
                 (unsigned* out, CUdevice device), (out, device))
FAKE_CUDA_EXPORT(cuDeviceTotalMem_v2, "cuDeviceTotalMem", 3020, total_memory,
                 (size_t * out, CUdevice device), (out, device))
FAKE_CUDA_EXPORT(cuDeviceGetAttribute, "cuDeviceGetAttribute", 2000, attribute,
                 (int* out, CUdevice_attribute which, CUdevice device), (out, which, device))
FAKE_CUDA_EXPORT(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", 4010, pci_bus_id,
                 (char* out, int bytes, CUdevice device), (out, bytes, device))
FAKE_CUDA_EXPORT(cuDeviceGetByPCIBusId, "cuDeviceGetByPCIBusId", 4010, by_pci_bus_id,
                 (CUdevice * out, const char* id), (out, id))

}  // namespace fake_cuda
