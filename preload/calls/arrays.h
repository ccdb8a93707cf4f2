// Driver calls for arrays, also for mipmapped and sparse ones. hooks/cuda.cc instantiates them for
// the rows of cuda_table.def. Each gets the real function and its arguments, and returns the real
// function's result, or out of memory if a limit refuses the call (track/limit.h). HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>

#include "calls/allocate.h"
#include "calls/array_bytes.h"
#include "track/virtual_memory.h"

namespace gpupeak::preload::calls {

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

template <typename Real, typename Descriptor>
CUresult array_create(const ApiCall& call, Real real, CUarray* out, const Descriptor* descriptor) {
  const ArrayBracket bracket(call);
  return allocate(
      call, KeySpace::kArray, GPUPEAK_KIND_ARRAY, [&] { return real(out, descriptor); },
      [&] { return value_of(*out); }, descriptor != nullptr ? array_bytes(*descriptor) : 0);
}

template <typename Real>
CUresult mipmapped_create(const ApiCall& call, Real real, CUmipmappedArray* out,
                          const CUDA_ARRAY3D_DESCRIPTOR* descriptor, unsigned levels) {
  const ArrayBracket bracket(call);
  return allocate(
      call, KeySpace::kArray, GPUPEAK_KIND_ARRAY, [&] { return real(out, descriptor, levels); },
      [&] { return value_of(*out); },
      descriptor != nullptr ? mipmapped_bytes(*descriptor, levels) : 0);
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
    if (result == CUDA_SUCCESS)
      vmm_array_gone(value_of(array));
    else
      vmm_array_stays(value_of(array));
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
  for (unsigned i = 0; i < count; ++i) vmm_tile_leaving(call, tile_key(list[i]));
  const CUresult result = real(list, count, stream);
  for (unsigned i = 0; i < count; ++i) {
    const CUarrayMapInfo& tile = list[i];
    const bool maps = tile.memOperationType == CU_MEM_OPERATION_TYPE_MAP;
    if (result != CUDA_SUCCESS)
      vmm_tile_stays(tile_key(tile));
    else if (maps)
      vmm_tile_mapped(call, tile_key(tile), value_of(tile.resource.array),
                      tile.memHandle.memHandle);
    else
      vmm_tile_unmapped(call, tile_key(tile));
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
      descriptor != nullptr ? mipmapped_bytes(descriptor->arrayDesc, descriptor->numLevels) : 0);
}

}  // namespace gpupeak::preload::calls
