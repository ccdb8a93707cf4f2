// Virtual memory management. Physical memory lives while a handle refers to it or it is mapped.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <compare>
#include <cstring>
#include <iterator>

#include "export.h"

namespace fake_cuda {
namespace {

struct Physical {
  int device = 0;  ///< -1: host
  uint64_t bytes = 0;
  uint64_t owners = 0;  ///< handle objects that refer to it
  uint64_t mappings = 0;
};

/// Imported memory has a handle of its own. Its bytes are accounted by the creator's handles.
struct Handle {
  Physical* physical = nullptr;  ///< null: a multicast object, which has no memory of its own
  CUmemAllocationProp properties{};
  bool imported = false;
  uint64_t bytes = 0;  ///< of a multicast object
  uint64_t references = 1;
  uint64_t mappings = 0;
};

struct Mapping {
  uint64_t bytes = 0;
  Handle* handle = nullptr;
};

struct Range {
  uint64_t bytes = 0;
  int device = 0;  ///< of the context that reserved it, for the ledger
};

/// A place in a sparse array: level, layer, x, y, z. A mip tail has level -1.
struct Tile {
  const void* array = nullptr;
  std::array<int64_t, 5> at{};
  auto operator<=>(const Tile&) const = default;
};

struct VirtualMemory {
  Registry<Physical> physical;
  Registry<Handle> handles;
  std::map<Tile, Handle*> tiles;
  std::map<CUdeviceptr, Range> ranges;
  std::map<CUdeviceptr, Mapping> mappings;
};

VirtualMemory& vmm() {
  static auto* const instance = new VirtualMemory;
  return *instance;
}

CUmemGenericAllocationHandle value_of(Handle* handle) {
  return static_cast<CUmemGenericAllocationHandle>(reinterpret_cast<uintptr_t>(handle));
}

/// Null if all references of the handle were released, even if its memory is still mapped.
Handle* live_handle(CUmemGenericAllocationHandle value) {
  Handle* const handle = vmm().handles.find(static_cast<uintptr_t>(value));
  return handle != nullptr && handle->references > 0 ? handle : nullptr;
}

Kind kind_of(const Physical& physical) {
  return physical.device < 0 ? Kind::host_vmm : Kind::vmm;
}

void drop_if_unused(Handle* handle) {
  if (handle->references > 0 || handle->mappings > 0) return;
  Physical* const physical = handle->physical;
  if (handle->physical == nullptr) return vmm().handles.remove(handle);  // multicast
  if (!handle->imported) ledger_remove(physical->device, kind_of(*physical), physical->bytes);
  vmm().handles.remove(handle);
  if (--physical->owners > 0) return;
  give_memory(physical->device, physical->bytes);
  vmm().physical.remove(physical);
}

CUresult create(CUmemGenericAllocationHandle* out, size_t bytes,
                const CUmemAllocationProp* properties, unsigned long long flags) {
  if (out == nullptr || properties == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || bytes % kPage != 0) return CUDA_ERROR_INVALID_VALUE;
  const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (on_device && device_of(properties->location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const int device = on_device ? properties->location.id : -1;
  if (!take_memory(device, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
  Physical* const physical = vmm().physical.add({.device = device, .bytes = bytes, .owners = 1});
  *out = value_of(vmm().handles.add({.physical = physical, .properties = *properties}));
  ledger_add(device, kind_of(*physical), bytes);
  return CUDA_SUCCESS;
}

CUresult release(CUmemGenericAllocationHandle value) {
  Handle* const handle = live_handle(value);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  --handle->references;
  drop_if_unused(handle);
  return CUDA_SUCCESS;
}

bool in_one_range(CUdeviceptr at, uint64_t bytes) {
  auto found = vmm().ranges.upper_bound(at);
  if (found == vmm().ranges.begin()) return false;
  --found;
  return at + bytes <= found->first + found->second.bytes;
}

/// The first mapping that reaches beyond `at`.
auto first_mapping(CUdeviceptr at) {
  auto found = vmm().mappings.upper_bound(at);
  if (found != vmm().mappings.begin()) {
    const auto before = std::prev(found);
    if (before->first + before->second.bytes > at) return before;
  }
  return found;
}

CUresult map(CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle value,
             unsigned long long flags) {
  Handle* const handle = live_handle(value);
  if (handle == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0 || bytes % kPage != 0 || at % kPage != 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t size = handle->physical != nullptr ? handle->physical->bytes : handle->bytes;
  if (offset + bytes > size || !in_one_range(at, bytes)) return CUDA_ERROR_INVALID_VALUE;
  const auto next = first_mapping(at);
  if (next != vmm().mappings.end() && next->first < at + bytes) return CUDA_ERROR_INVALID_VALUE;
  vmm().mappings[at] = {bytes, handle};
  ++handle->mappings;
  return CUDA_SUCCESS;
}

/// One call may remove several mappings, but only whole ones.
CUresult unmap(CUdeviceptr at, size_t bytes) {
  auto& mappings = vmm().mappings;
  const auto first = mappings.find(at);
  CUdeviceptr end = at;
  auto last = first;
  while (last != mappings.end() && last->first == end && end < at + bytes) {
    end += last->second.bytes;
    ++last;
  }
  if (first == mappings.end() || end != at + bytes) return CUDA_ERROR_INVALID_VALUE;
  for (auto mapping = first; mapping != last; ++mapping) {
    --mapping->second.handle->mappings;
    drop_if_unused(mapping->second.handle);
  }
  mappings.erase(first, last);
  return CUDA_SUCCESS;
}

CUresult address_reserve(CUdeviceptr* out, size_t bytes, size_t alignment, CUdeviceptr,
                         unsigned long long flags) {
  if (out == nullptr || bytes == 0 || bytes % kPage != 0 || flags != 0)
    return CUDA_ERROR_INVALID_VALUE;
  const CUdeviceptr at = reserve_addresses(bytes, alignment > kPage ? alignment : kPage);
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const Context* const context = current_context();
  const int device = context != nullptr ? context->device : 0;
  vmm().ranges[at] = {bytes, device};
  ledger_add(device, Kind::addresses, bytes);
  *out = at;
  return CUDA_SUCCESS;
}

CUresult address_free(CUdeviceptr at, size_t bytes) {
  const auto found = vmm().ranges.find(at);
  if (found == vmm().ranges.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
  const auto mapping = first_mapping(at);
  if (mapping != vmm().mappings.end() && mapping->first < at + bytes)
    return CUDA_ERROR_INVALID_VALUE;
  ledger_remove(found->second.device, Kind::addresses, bytes);
  release_addresses(at, bytes);
  vmm().ranges.erase(found);
  return CUDA_SUCCESS;
}

CUresult set_access(CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count) {
  if (access == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
  const auto mapping = first_mapping(at);
  const bool mapped = mapping != vmm().mappings.end() && mapping->first <= at && bytes > 0;
  return mapped ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult retain_handle(CUmemGenericAllocationHandle* out, void* pointer) {
  const auto at = reinterpret_cast<CUdeviceptr>(pointer);
  const auto mapping = first_mapping(at);
  if (mapping == vmm().mappings.end() || mapping->first > at) return CUDA_ERROR_INVALID_VALUE;
  ++mapping->second.handle->references;
  *out = value_of(mapping->second.handle);
  return CUDA_SUCCESS;
}

CUresult granularity(size_t* out, const CUmemAllocationProp* properties,
                     CUmemAllocationGranularity_flags) {
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = kPage;
  return CUDA_SUCCESS;
}

CUresult properties_of(CUmemAllocationProp* out, CUmemGenericAllocationHandle value) {
  const Handle* const handle = live_handle(value);
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *out = handle->properties;
  return CUDA_SUCCESS;
}

/// The exported descriptor is a file that names the physical memory. This works within one process.
CUresult export_handle(void* out, CUmemGenericAllocationHandle value,
                       CUmemAllocationHandleType type, unsigned long long) {
  const Handle* const handle = live_handle(value);
  if (handle == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  const int file = memfd_create("fake_cuda_memory", MFD_CLOEXEC);
  if (file < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  Physical* const physical = handle->physical;
  if (pwrite(file, &physical, sizeof physical, 0) != static_cast<ssize_t>(sizeof physical)) {
    close(file);
    return CUDA_ERROR_OPERATING_SYSTEM;
  }
  *static_cast<int*>(out) = file;
  return CUDA_SUCCESS;
}

CUresult import_handle(CUmemGenericAllocationHandle* out, void* os_handle,
                       CUmemAllocationHandleType type) {
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) return CUDA_ERROR_INVALID_VALUE;
  const int file = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  Physical* written = nullptr;
  if (pread(file, &written, sizeof written, 0) != static_cast<ssize_t>(sizeof written)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Physical* const physical = vmm().physical.find(written);
  if (physical == nullptr) return CUDA_ERROR_INVALID_VALUE;
  ++physical->owners;
  Handle handle{.physical = physical, .imported = true};
  handle.properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  handle.properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, physical->device};
  *out = value_of(vmm().handles.add(handle));
  return CUDA_SUCCESS;
}

Tile tile_of(const CUarrayMapInfo& info) {
  Tile tile{.array = info.resource.array};
  if (info.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    const auto& tail = info.subresource.miptail;
    tile.at = {-1, tail.layer, static_cast<int64_t>(tail.offset), 0, 0};
  } else {
    const auto& level = info.subresource.sparseLevel;
    tile.at = {level.level, level.layer, level.offsetX, level.offsetY, level.offsetZ};
  }
  return tile;
}

void unmap_tile(std::map<Tile, Handle*>::iterator tile) {
  Handle* const handle = tile->second;
  vmm().tiles.erase(tile);
  --handle->mappings;
  drop_if_unused(handle);
}

CUresult map_tiles(CUarrayMapInfo* list, unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    const Array* const array = driver().arrays.find(list[i].resource.array);
    if (array == nullptr || (array->descriptor.Flags & CUDA_ARRAY3D_SPARSE) == 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (list[i].memOperationType == CU_MEM_OPERATION_TYPE_MAP &&
        live_handle(list[i].memHandle.memHandle) == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
  }
  for (unsigned i = 0; i < count; ++i) {
    const Tile tile = tile_of(list[i]);
    if (const auto known = vmm().tiles.find(tile); known != vmm().tiles.end()) unmap_tile(known);
    if (list[i].memOperationType != CU_MEM_OPERATION_TYPE_MAP) continue;
    Handle* const handle = live_handle(list[i].memHandle.memHandle);
    ++handle->mappings;
    vmm().tiles.emplace(tile, handle);
  }
  return CUDA_SUCCESS;
}

/// A multicast object: devices share an address range. It has no memory, and cuMemRelease ends it.
CUresult create_multicast(CUmemGenericAllocationHandle* out, const void* properties) {
  struct Properties {
    unsigned devices;
    size_t bytes;
    unsigned long long handle_types, flags;
  };
  const auto* wanted = static_cast<const Properties*>(properties);
  if (out == nullptr || wanted == nullptr || wanted->bytes % kPage != 0)
    return CUDA_ERROR_INVALID_VALUE;
  *out = value_of(vmm().handles.add({.bytes = wanted->bytes}));
  return CUDA_SUCCESS;
}

CUresult add_multicast_device(CUmemGenericAllocationHandle value, CUdevice device) {
  return live_handle(value) != nullptr && device_of(device) != nullptr ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
}

CUresult bind_multicast(CUmemGenericAllocationHandle multicast,
                        CUmemGenericAllocationHandle memory) {
  const bool good = live_handle(multicast) != nullptr && live_handle(memory) != nullptr;
  return good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

void unmap_tiles_of(const Array* array) {
  auto& tiles = vmm().tiles;
  for (auto tile = tiles.lower_bound({.array = array, .at = {INT64_MIN}});
       tile != tiles.end() && tile->first.array == array;) {
    unmap_tile(tile++);
  }
}

FAKE_CUDA_EXPORT_BOTH(cuMemMapArrayAsync, "cuMemMapArrayAsync", 11010, map_tiles,
                      (CUarrayMapInfo * list, unsigned count, CUstream), (list, count))
FAKE_CUDA_EXPORT(cuMulticastCreate, "cuMulticastCreate", 12010, create_multicast,
                 (CUmemGenericAllocationHandle * out, const void* properties), (out, properties))
FAKE_CUDA_EXPORT(cuMulticastAddDevice, "cuMulticastAddDevice", 12010, add_multicast_device,
                 (CUmemGenericAllocationHandle handle, CUdevice device), (handle, device))
FAKE_CUDA_EXPORT(cuMulticastBindMem, "cuMulticastBindMem", 12010, bind_multicast,
                 (CUmemGenericAllocationHandle handle, size_t, CUmemGenericAllocationHandle memory,
                  size_t, size_t, unsigned long long),
                 (handle, memory))
FAKE_CUDA_EXPORT(cuMemCreate, "cuMemCreate", 10020, create,
                 (CUmemGenericAllocationHandle * out, size_t bytes,
                  const CUmemAllocationProp* properties, unsigned long long flags),
                 (out, bytes, properties, flags))
FAKE_CUDA_EXPORT(cuMemRelease, "cuMemRelease", 10020, release,
                 (CUmemGenericAllocationHandle handle), (handle))
FAKE_CUDA_EXPORT(cuMemMap, "cuMemMap", 10020, map,
                 (CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags),
                 (at, bytes, offset, handle, flags))
FAKE_CUDA_EXPORT(cuMemUnmap, "cuMemUnmap", 10020, unmap, (CUdeviceptr at, size_t bytes),
                 (at, bytes))
FAKE_CUDA_EXPORT(cuMemAddressReserve, "cuMemAddressReserve", 10020, address_reserve,
                 (CUdeviceptr * out, size_t bytes, size_t alignment, CUdeviceptr wanted,
                  unsigned long long flags),
                 (out, bytes, alignment, wanted, flags))
FAKE_CUDA_EXPORT(cuMemAddressFree, "cuMemAddressFree", 10020, address_free,
                 (CUdeviceptr at, size_t bytes), (at, bytes))
FAKE_CUDA_EXPORT(cuMemSetAccess, "cuMemSetAccess", 10020, set_access,
                 (CUdeviceptr at, size_t bytes, const CUmemAccessDesc* access, size_t count),
                 (at, bytes, access, count))
FAKE_CUDA_EXPORT(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, retain_handle,
                 (CUmemGenericAllocationHandle * out, void* at), (out, at))
FAKE_CUDA_EXPORT(cuMemGetAllocationGranularity, "cuMemGetAllocationGranularity", 10020, granularity,
                 (size_t * out, const CUmemAllocationProp* properties,
                  CUmemAllocationGranularity_flags which),
                 (out, properties, which))
FAKE_CUDA_EXPORT(cuMemGetAllocationPropertiesFromHandle, "cuMemGetAllocationPropertiesFromHandle",
                 10020, properties_of,
                 (CUmemAllocationProp * out, CUmemGenericAllocationHandle handle), (out, handle))
FAKE_CUDA_EXPORT(cuMemExportToShareableHandle, "cuMemExportToShareableHandle", 10020, export_handle,
                 (void* out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                  unsigned long long flags),
                 (out, handle, type, flags))
FAKE_CUDA_EXPORT(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020,
                 import_handle,
                 (CUmemGenericAllocationHandle * out, void* os_handle,
                  CUmemAllocationHandleType type),
                 (out, os_handle, type))

}  // namespace fake_cuda
