// Driver calls for memory that is created and mapped by separate calls, for memory of another
// process or interface, and for arrays. As those of allocate.h.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>

#include "calls/allocate.h"
#include "track/virtual_memory.h"

namespace gpupeak::preload::calls {

template <typename Real>
CUresult mem_create(const ApiCall& call, Real real, CUmemGenericAllocationHandle* out, size_t bytes,
                    const CUmemAllocationProp* properties, unsigned long long flags) {
  if (properties == nullptr) return real(out, bytes, properties, flags);
  const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const gpupeak_kind kind = on_device ? GPUPEAK_KIND_VMM : GPUPEAK_KIND_HOST_VMM;
  return allocate_on(
      call, kind, [&] { return on_device ? properties->location.id : kNoDevice; }, bytes, 0,
      [&] { return real(out, bytes, properties, flags); },
      [&](int device) { vmm_created(call, *out, kind, device, bytes); });
}

template <typename Real>
CUresult mem_import(const ApiCall& call, Real real, CUmemGenericAllocationHandle* out,
                    void* os_handle, CUmemAllocationHandleType type) {
  return noted([&] { return real(out, os_handle, type); },
               [&] { vmm_created(call, *out, GPUPEAK_KIND_IMPORTED, current_device(), 0); });
}

template <typename Real>
CUresult mem_retain_handle(const ApiCall& call, Real real, CUmemGenericAllocationHandle* out,
                           void* at) {
  DriverScope scope;
  if (!scope.accounts()) return real(out, at);
  const uint64_t held = vmm_retaining(reinterpret_cast<CUdeviceptr>(at));
  const CUresult result = real(out, at);
  vmm_retained(call, held, result == CUDA_SUCCESS ? out : nullptr);
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
  if (known) vmm_released(handle, result == CUDA_SUCCESS);
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
  vmm_unmapped(at, bytes, result == CUDA_SUCCESS);
  return result;
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
template <typename Real, typename... Arguments>
CUresult import_pointer(const ApiCall& call, Real real, CUdeviceptr* out, Arguments... arguments) {
  const auto run = [&] { return real(out, arguments...); };
  return noted(run, [&] {
    device_allocated(
        call, KeySpace::kPointer, *out,
        {.bytes = bytes_at(*out), .device = current_device(), .kind = GPUPEAK_KIND_IMPORTED});
  });
}

template <typename Real>
CUresult ipc_close(const ApiCall& call, Real real, CUdeviceptr at) {
  const auto run = [&] { return real(at); };
  return release(call, KeySpace::kPointer, at, run, Frees::kImported);
}

// Arrays, also mipmapped and sparse ones.

// Estimates how much memory an array takes, from its descriptor. The driver pads and tiles, so it
// may take more.

/// Bits of one channel of a texel. `whole`: bits of a whole texel, for block-compressed and packed
/// formats, so that the number of channels does not multiply. 8 bits a channel for unknown formats.
struct TexelBits {
  uint32_t bits;
  bool whole;
};

/// `format`: a CUarray_format, compared by value, since older headers do not name newer formats.
inline TexelBits texel_bits(unsigned format) {
  // clang-format off
  switch (format) {
    case 0x01: case 0x08: return {8, false};                        // (UN)SIGNED_INT8
    case 0x02: case 0x09: case 0x10: return {16, false};            // (UN)SIGNED_INT16, HALF
    case 0x03: case 0x0a: case 0x20: return {32, false};            // (UN)SIGNED_INT32, FLOAT
    case 0xc0: case 0xc6: return {8, true};                         // (U/S)NORM_INT8X1
    case 0xc1: case 0xc7: return {16, true};                        // …8X2
    case 0xc2: case 0xc8: return {32, true};                        // …8X4
    case 0xc3: case 0xc9: return {16, true};                        // (U/S)NORM_INT16X1
    case 0xc4: case 0xca: return {32, true};                        // …16X2
    case 0xc5: case 0xcb: return {64, true};                        // …16X4
    case 0x50: return {32, true};                                   // UNORM_INT_101010_2
    case 0x91: case 0x92: case 0x97: case 0x98: return {4, true};   // BC1, BC4
    case 0x93: case 0x94: case 0x95: case 0x96: case 0x99: case 0x9a: case 0x9b: case 0x9c: case 0x9d:
    case 0x9e: return {8, true};                                    // BC2, BC3, BC5, BC6H, BC7
    case 0xb0: return {12, true};                                   // NV12
    case 0x9f: case 0xa1: return {24, true};                        // P010, P016
    case 0xa2: case 0xa5: return {16, true};                        // NV16, YUY2
    case 0xa3: case 0xa4: case 0xa6: case 0xa7: case 0xa8: case 0xa9: return {32, true};
    case 0xb1: return {64, true};                                   // Y416
    case 0xb2: case 0xb4: return {24, true};                        // 4:4:4, 8 bits
    case 0xb3: case 0xb5: return {48, true};                        // 4:4:4, 10 and 16 bits
    default: return {8, false};
  }
  // clang-format on
}

inline uint64_t texel_bytes(uint64_t texels, unsigned format, unsigned channels) {
  const TexelBits texel = texel_bits(format);
  return (texels * texel.bits * (texel.whole ? 1 : channels) + 7) / 8;
}

constexpr uint64_t at_least_one(uint64_t value) {
  return value == 0 ? 1 : value;
}

/// With one of these flags, memory is attached only later, by cuMemMapArrayAsync.
constexpr unsigned kNoMemoryYet = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

template <typename Descriptor>
uint64_t array_bytes(const Descriptor& d) {
  uint64_t texels = at_least_one(d.Width) * at_least_one(d.Height);
  if constexpr (requires { d.Depth; }) {
    if ((d.Flags & kNoMemoryYet) != 0) return 0;
    texels *= at_least_one(d.Depth);
  }
  return texel_bytes(texels, d.Format, d.NumChannels);
}

/// Each level halves the extents, not below one texel; a layered array keeps its depth.
inline uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels) {
  if ((d.Flags & kNoMemoryYet) != 0) return 0;
  uint64_t width = at_least_one(d.Width), height = at_least_one(d.Height),
           depth = at_least_one(d.Depth);
  uint64_t bytes = 0;
  for (unsigned level = 0; level < levels; ++level) {
    bytes += texel_bytes(width * height * depth, d.Format, d.NumChannels);
    if (width == 1 && height == 1 && ((d.Flags & CUDA_ARRAY3D_LAYERED) != 0 || depth == 1)) break;
    width = at_least_one(width / 2);
    height = at_least_one(height / 2);
    if ((d.Flags & CUDA_ARRAY3D_LAYERED) == 0) depth = at_least_one(depth / 2);
  }
  return bytes;
}

/// A LedgerBracket around an array's call: the array's bytes are an estimate, and the bracket shows
/// what the driver takes beyond them.
class ArrayBracket {
 public:
  explicit ArrayBracket(const ApiCall& call) {
    if (accounts()) bracket_.open(call, GPUPEAK_LEDGER_ARRAYS, current_device());
  }
  /// For an array that exists: on its own device, which need not be current.
  ArrayBracket(const ApiCall& call, uint64_t array) {
    DeviceBlock block;
    if (accounts() && device_find(KeySpace::kArray, array, block))
      bracket_.open(call, GPUPEAK_LEDGER_ARRAYS, block.device);
  }

 private:
  static bool accounts() { return !DriverScope::is_open(arch::stack_pointer()) && recording(); }
  LedgerBracket bracket_;
};

/// `levels`: of a mipmapped array.
template <typename Real, typename Array, typename Descriptor, typename... Levels>
CUresult array_create(const ApiCall& call, Real real, Array* out, const Descriptor* descriptor,
                      Levels... levels) {
  const ArrayBracket bracket(call);
  return allocate(
      call, KeySpace::kArray, GPUPEAK_KIND_ARRAY, [&] { return real(out, descriptor, levels...); },
      [&] { return value_of(*out); },
      descriptor != nullptr ? array_bytes(*descriptor, levels...) : 0);
}

/// A hash of the array and of the tile's place in it, without the padding of the unions.
inline uint64_t tile_key(const CUarrayMapInfo& tile) {
  uint64_t key = 0xcbf29ce484222325u;
  const auto add = [&key](uint64_t value) { key = (key ^ value) * 0x9e3779b97f4a7c15u; };
  add(value_of(tile.resource.array));
  add(tile.subresourceType);
  if (tile.subresourceType == CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL) {
    add(tile.subresource.miptail.layer);
    add(tile.subresource.miptail.offset);
  } else {
    const auto& place = tile.subresource.sparseLevel;
    for (const unsigned part :
         {place.level, place.layer, place.offsetX, place.offsetY, place.offsetZ}) {
      add(part);
    }
  }
  return key | 1;
}

template <typename Real, typename Array>
CUresult array_destroy(const ApiCall& call, Real real, Array array) {
  const ArrayBracket bracket(call, value_of(array));
  return release(call, KeySpace::kArray, value_of(array), [&] {
    if (!recording()) return real(array);
    vmm_array_leaving(call, value_of(array));
    const CUresult result = real(array);
    vmm_array_gone(value_of(array), result == CUDA_SUCCESS);
    return result;
  });
}

/// Maps or unmaps tiles of sparse arrays. Each tile is a mapping of cuMemCreate's memory.
template <typename Real>
CUresult map_array_async(const ApiCall& call, Real real, CUarrayMapInfo* list, unsigned count,
                         CUstream stream) {
  DriverScope scope;
  if (!scope.accounts() || list == nullptr) return real(list, count, stream);
  read_unread_peaks();
  const DeviceCall under_way;
  const auto maps = [](const CUarrayMapInfo& tile) {
    return tile.memOperationType == CU_MEM_OPERATION_TYPE_MAP;
  };
  for (unsigned i = 0; i < count; ++i) {
    vmm_tile_leaving(call, tile_key(list[i]));
    if (maps(list[i])) vmm_mapping(list[i].memHandle.memHandle);
  }
  const CUresult result = real(list, count, stream);
  for (unsigned i = 0; i < count; ++i) {
    const CUarrayMapInfo& tile = list[i];
    if (result != CUDA_SUCCESS) {
      vmm_tile_stays(tile_key(tile));
      if (maps(tile)) vmm_not_mapped(call, tile.memHandle.memHandle);
    } else if (maps(tile)) {
      vmm_tile_mapped(call, tile_key(tile), value_of(tile.resource.array),
                      tile.memHandle.memHandle);
    } else {
      vmm_tile_unmapped(call, tile_key(tile));
    }
  }
  return result;
}

/// An array in imported memory, whose exporter owns the bytes.
template <typename Real, typename Descriptor>
CUresult external_mipmapped(const ApiCall& call, Real real, CUmipmappedArray* out,
                            CUexternalMemory memory, const Descriptor* descriptor) {
  return allocate(
      call, KeySpace::kArray, GPUPEAK_KIND_IMPORTED, [&] { return real(out, memory, descriptor); },
      [&] { return value_of(*out); },
      descriptor != nullptr ? array_bytes(descriptor->arrayDesc, descriptor->numLevels) : 0);
}

}  // namespace gpupeak::preload::calls
