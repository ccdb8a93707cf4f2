// What each family of driver calls means: one function a call, made by hooks/cuda.cc from
// cuda_table.def. Each gets the real function and its arguments, and returns the real function's
// result, always. Templates, since the ABI versions of a call differ in integer widths only.
// HOOK-SAFE.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <initializer_list>

#include "calls/array_bytes.h"
#include "calls/driver_scope.h"
#include "track/device_memory.h"
#include "track/driver.h"
#include "track/ledger.h"
#include "track/virtual_memory.h"

namespace gpupeak::preload::calls {

constexpr bool kPerThread = true;

inline uint64_t value_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}
inline uint64_t value_of(uint64_t pointer) {
  return pointer;
}

/// Short of memory, the driver takes back what pools and graphs hold in reserve. Pools may be asked
/// only after a call that breaks a capture as an allocation does (driver.h), graphs' reserves
/// always.
inline void read_reserves_after_failure(const ApiCall& call, gpupeak_kind kind, CUresult result) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return;
  if (kind == GPUPEAK_KIND_LINEAR || kind == GPUPEAK_KIND_POOL) read_all_pools();
  const int device = has_graph_memory() ? current_device() : kNoDevice;
  if (device != kNoDevice) graph_reserve_read(call, device);
}

/// The common shape: run `real`, then account what it gave, or that it failed.
template <typename Run, typename Value>
CUresult allocate(const ApiCall& call, KeySpace space, gpupeak_kind kind, Run run, Value value,
                  uint64_t bytes) {
  DriverScope scope;
  const DeviceCall under_way;
  const CUresult result = run();
  if (!scope.accounts()) return result;
  const int device = current_device();
  if (result != CUDA_SUCCESS) {
    device_failed(call, kind, device, bytes, result);
    read_reserves_after_failure(call, kind, result);
  } else {
    device_allocated(
        call, space, value(),
        {.bytes = bytes, .context = current_context(), .device = device, .kind = kind});
    if (kind == GPUPEAK_KIND_LINEAR)
      read_all_pools();  // it may have taken from what they held in reserve
    sample_driver_memory();
  }
  return result;
}

/// Asked only where any was ever made.
inline bool is_managed(KeySpace space, uint64_t value, DeviceBlock& block) {
  return has_managed_memory() && space == KeySpace::kPointer && device_find(space, value, block) &&
         block.kind == GPUPEAK_KIND_MANAGED;
}

/// The common shape of a free: taken out before the real call, since another thread may be given
/// the same address before it returns; put back if it fails.
template <typename Run>
CUresult release(const ApiCall& call, KeySpace space, uint64_t value, Run run) {
  DriverScope scope;
  if (!scope.accounts() || value == 0) return run();
  read_unread_peaks();
  LedgerBracket bracket;
  DeviceBlock block;
  if (is_managed(space, value, block)) bracket.open(call, GPUPEAK_LEDGER_MANAGED, block.device);
  const DeviceCall under_way;
  const bool known = device_freeing(call, space, value, block);
  const CUresult result = run();
  if (known && result != CUDA_SUCCESS) device_not_freed(space, value, block);
  if (!known && result == CUDA_SUCCESS) device_unknown_freed(call, value);
  return result;
}

// ---- linear, pinned, managed, registered
// -----------------------------------------------------------

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
  const CUresult result = real(out, pitch, width, height, element_bytes);
  if (!scope.accounts()) return result;
  const int device = current_device();
  const uint64_t rows = height;
  if (result != CUDA_SUCCESS) {
    device_failed(call, GPUPEAK_KIND_LINEAR, device, width * rows, result);
    read_reserves_after_failure(call, GPUPEAK_KIND_LINEAR, result);
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

// ---- arrays
// ----------------------------------------------------------------------------------------

/// Their bytes are an estimate: what the driver takes beyond it is bracketed.
class ArrayBracket {
 public:
  explicit ArrayBracket(const ApiCall& call) {
    if (accounts()) bracket_.open(call, GPUPEAK_LEDGER_ARRAYS, current_device());
  }
  /// On the device that it was made on, whichever is current.
  ArrayBracket(const ApiCall& call, uint64_t array) {
    DeviceBlock block;
    if (accounts() && device_find(KeySpace::kArray, array, block))
      bracket_.open(call, GPUPEAK_LEDGER_ARRAYS, block.device);
  }

 private:
  static bool accounts() { return t_flags.driver_depth == 0 && recording(); }
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

/// Which tile of which array: the padding of the unions takes no part.
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
  const CUresult result =
      release(call, KeySpace::kArray, value_of(array), [&] { return real(array); });
  if (result == CUDA_SUCCESS && recording()) vmm_array_destroyed(call, value_of(array));
  return result;
}

/// Tiles of sparse arrays, each a mapping of cuMemCreate's memory.
template <typename Real>
CUresult map_array_async(const ApiCall& call, Real real, CUarrayMapInfo* list, unsigned count,
                         CUstream stream) {
  DriverScope scope;
  if (scope.accounts()) read_unread_peaks();
  const CUresult result = real(list, count, stream);
  if (!scope.accounts() || result != CUDA_SUCCESS) return result;
  for (unsigned i = 0; i < count; ++i) {
    const CUarrayMapInfo& tile = list[i];
    const bool maps = tile.memOperationType == CU_MEM_OPERATION_TYPE_MAP;
    if (maps)
      vmm_tile_mapped(call, tile_key(tile), value_of(tile.resource.array),
                      tile.memHandle.memHandle);
    else
      vmm_tile_unmapped(call, tile_key(tile));
  }
  return result;
}

/// An array over imported memory: the exporter owns the bytes.
template <typename Real, typename Descriptor>
CUresult external_mipmapped(const ApiCall& call, Real real, CUmipmappedArray* out,
                            CUexternalMemory memory, const Descriptor* descriptor) {
  return allocate(
      call, KeySpace::kArray, GPUPEAK_KIND_IMPORTED, [&] { return real(out, memory, descriptor); },
      [&] { return value_of(*out); },
      descriptor != nullptr ? mipmapped_bytes(descriptor->arrayDesc, descriptor->numLevels) : 0);
}

// ---- pools
// -----------------------------------------------------------------------------------------

/// A captured call gives addresses and no memory. `find_pool` tells which pool the call takes from.
template <typename FindPool, typename Run>
CUresult allocate_async(const ApiCall& call, CUstream stream, bool per_thread, CUdeviceptr* out,
                        uint64_t bytes, FindPool find_pool, Run run) {
  DriverScope scope;
  const bool captured = scope.accounts() && is_capturing(stream, per_thread);
  const CUresult result = run();
  if (!scope.accounts()) return result;
  if (captured && result == CUDA_SUCCESS) {
    device_noted(KeySpace::kPointer, *out, {.bytes = bytes, .kind = GPUPEAK_KIND_GRAPH});
    return result;
  }
  const PoolPlace from = captured ? PoolPlace{} : find_pool();
  if (result != CUDA_SUCCESS) {
    const PoolPlace place = pool_place(from.pool, from.device);
    device_failed(call, place.kind, place.device, bytes, result);
    read_reserves_after_failure(call, place.kind, result);
    return result;
  }
  const uint64_t reserved = pool_attribute(from.pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  if (pool_allocated(call, *out, bytes, from.pool, from.device, reserved)) pool_read(from.pool);
  return result;
}

/// From the pool that is current on the stream's device, whatever context is current.
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
  // Captured, it may free a graph's memory only: that stays known, and nothing of it is counted
  // here.
  return release(call, KeySpace::kPointer, at, [&] { return real(at, stream); });
}

template <typename Real>
CUresult pool_create(const ApiCall&, Real real, CUmemoryPool* out,
                     const CUmemPoolProps* properties) {
  DriverScope scope;
  const CUresult result = real(out, properties);
  if (scope.accounts() && result == CUDA_SUCCESS) {
    constexpr int kManaged =
        2;  // CU_MEM_ALLOCATION_TYPE_MANAGED, which headers before CUDA 13.0 lack
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

/// Which pool a device's allocations come from, from now on.
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

/// A synchronise of a stream, an event or a context. Having succeeded, it shows that no capture
/// forbids to ask.
template <typename Real, typename... Arguments>
CUresult synchronise(const ApiCall&, Real real, Arguments... arguments) {
  DriverScope scope;
  const CUresult result = real(arguments...);
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

// ---- virtual memory management
// -----------------------------------------------------------------------

template <typename Real>
CUresult mem_create(const ApiCall& call, Real real, CUmemGenericAllocationHandle* out, size_t bytes,
                    const CUmemAllocationProp* properties, unsigned long long flags) {
  DriverScope scope;
  const DeviceCall under_way;
  const CUresult result = real(out, bytes, properties, flags);
  if (!scope.accounts() || properties == nullptr) return result;
  const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const gpupeak_kind kind = on_device ? GPUPEAK_KIND_VMM : GPUPEAK_KIND_HOST_VMM;
  const int device = on_device ? properties->location.id : kNoDevice;
  if (result == CUDA_SUCCESS) {
    vmm_created(call, *out, kind, device, bytes);
    sample_driver_memory();
  } else {
    device_failed(call, kind, device, bytes, result);
    read_reserves_after_failure(call, kind, result);
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
  if (known && result != CUDA_SUCCESS) vmm_not_released(handle);
  return result;
}

template <typename Real>
CUresult mem_map(const ApiCall&, Real real, CUdeviceptr at, size_t bytes, size_t offset,
                 CUmemGenericAllocationHandle handle, unsigned long long flags) {
  DriverScope scope;
  const CUresult result = real(at, bytes, offset, handle, flags);
  if (scope.accounts() && result == CUDA_SUCCESS) vmm_mapped(at, bytes, handle);
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

/// A buffer of imported memory; its end is a cuMemFree.
template <typename Real>
CUresult external_buffer(const ApiCall& call, Real real, CUdeviceptr* out, CUexternalMemory memory,
                         const CUDA_EXTERNAL_MEMORY_BUFFER_DESC* descriptor) {
  return allocate(
      call, KeySpace::kPointer, GPUPEAK_KIND_IMPORTED,
      [&] { return real(out, memory, descriptor); }, [&] { return value_of(*out); },
      descriptor != nullptr ? descriptor->size : 0);
}

/// Memory of another process, or of one of its pools. Opened again, it is counted again.
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
  return release(call, KeySpace::kPointer, at, [&] { return real(at); });
}

template <typename Real, typename Data>
CUresult pool_import_pointer(const ApiCall& call, Real real, CUdeviceptr* out, CUmemoryPool pool,
                             Data* data) {
  return import_pointer(call, out, [&] { return real(out, pool, data); });
}

// ---- graphs
// ------------------------------------------------------------------------------------------

template <typename Real, typename... Arguments>
CUresult begin_capture(const ApiCall&, Real real, Arguments... arguments) {
  captures_begin();
  return real(arguments...);
}

/// A node that allocates: addresses now, memory when the graph runs.
inline void note_graph_node(const CUDA_MEM_ALLOC_NODE_PARAMS* node) {
  device_noted(KeySpace::kPointer, node->dptr,
               {.bytes = node->bytesize, .kind = GPUPEAK_KIND_GRAPH});
}

template <typename Real>
CUresult graph_add_alloc_node(const ApiCall&, Real real, CUgraphNode* out, CUgraph graph,
                              const CUgraphNode* after, size_t count,
                              CUDA_MEM_ALLOC_NODE_PARAMS* node) {
  DriverScope scope;
  const CUresult result = real(out, graph, after, count, node);
  if (scope.accounts() && result == CUDA_SUCCESS) note_graph_node(node);
  return result;
}

/// The beginning of CUgraphNodeParams, which headers before CUDA 12.2 lack.
struct GraphNode {
  CUgraphNodeType type;
  int reserved[3];
  CUDA_MEM_ALLOC_NODE_PARAMS allocation;  ///< if the type says so
};

template <typename Run>
CUresult add_graph_node(const GraphNode* node, Run run) {
  DriverScope scope;
  const CUresult result = run();
  if (scope.accounts() && result == CUDA_SUCCESS && node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) {
    note_graph_node(&node->allocation);
  }
  return result;
}

template <typename Real>
CUresult graph_add_node(const ApiCall&, Real real, CUgraphNode* out, CUgraph graph,
                        const CUgraphNode* after, size_t count, GraphNode* node) {
  return add_graph_node(node, [&] { return real(out, graph, after, count, node); });
}

template <typename Real>
CUresult graph_add_node_with_edges(const ApiCall&, Real real, CUgraphNode* out, CUgraph graph,
                                   const CUgraphNode* after, const void* edges, size_t count,
                                   GraphNode* node) {
  return add_graph_node(node, [&] { return real(out, graph, after, edges, count, node); });
}

/// Where the memory behind graphs comes and goes.
template <typename Run>
CUresult run_graph_call(const ApiCall& call, const DriverScope& scope, Run run) {
  const CUresult result = run();
  if (has_graph_memory() && scope.accounts() && result == CUDA_SUCCESS) {
    const int device = current_device();
    if (device != kNoDevice) graph_reserve_read(call, device);
  }
  return result;
}

/// Instantiate, upload, destroy.
template <typename Real, typename... Arguments>
CUresult graph_call(const ApiCall& call, Real real, Arguments... arguments) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) {
    read_unread_peaks();
    bracket.open(call, GPUPEAK_LEDGER_GRAPHS, current_device());
  }
  return run_graph_call(call, scope, [&] { return real(arguments...); });
}

template <typename Real>
CUresult graph_exec_destroy(const ApiCall& call, Real real, CUgraphExec graph) {
  const CUresult result = graph_call(call, real, graph);
  if (result == CUDA_SUCCESS && recording()) forget_graph_launches();
  return result;
}

/// A graph's first launch also loads its functions.
template <typename Real>
CUresult graph_launch(const ApiCall& call, Real real, CUgraphExec graph, CUstream stream) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts() && is_first_graph_launch(graph))
    bracket.open(call, GPUPEAK_LEDGER_GRAPHS, current_device());
  return run_graph_call(call, scope, [&] { return real(graph, stream); });
}

template <typename Real>
CUresult graph_trim(const ApiCall& call, Real real, CUdevice device) {
  DriverScope scope;
  if (scope.accounts()) read_unread_peaks();
  const CUresult result = real(device);
  if (scope.accounts() && result == CUDA_SUCCESS) graph_reserve_read(call, device);
  return result;
}

// ---- contexts
// ----------------------------------------------------------------------------------------

/// All forms of cuCtxCreate: `out` comes first, the device last.
template <typename Run>
CUresult context_create(const ApiCall& call, CUcontext* out, CUdevice device, Run run) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device);
  const CUresult result = run();
  if (scope.accounts() && result == CUDA_SUCCESS) context_began(*out, device);
  return result;
}

template <typename Real>
CUresult ctx_create(const ApiCall& call, Real real, CUcontext* out, unsigned flags,
                    CUdevice device) {
  return context_create(call, out, device, [&] { return real(out, flags, device); });
}

template <typename Real, typename Parameters>
CUresult ctx_create_affinity(const ApiCall& call, Real real, CUcontext* out, Parameters* parameters,
                             int count, unsigned flags, CUdevice device) {
  return context_create(call, out, device,
                        [&] { return real(out, parameters, count, flags, device); });
}

template <typename Real, typename Parameters>
CUresult ctx_create_params(const ApiCall& call, Real real, CUcontext* out, Parameters* parameters,
                           unsigned flags, CUdevice device) {
  return context_create(call, out, device, [&] { return real(out, parameters, flags, device); });
}

template <typename Real>
CUresult ctx_create_vdpau(const ApiCall& call, Real real, CUcontext* out, unsigned flags,
                          CUdevice device, uint32_t vdpau, void* lookup) {
  return context_create(call, out, device, [&] { return real(out, flags, device, vdpau, lookup); });
}

template <typename Real>
CUresult ctx_destroy(const ApiCall& call, Real real, CUcontext context) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) {
    read_unread_peaks();
    bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device_of_context(context));
  }
  const CUresult result = real(context);
  if (scope.accounts() && result == CUDA_SUCCESS)
    context_ended(call, context, GPUPEAK_CONTEXT_DESTROYED);
  return result;
}

template <typename Real>
CUresult green_create(const ApiCall& call, Real real, void* out, void* resources, CUdevice device,
                      unsigned flags) {
  DriverScope scope;
  if (!scope.accounts()) return real(out, resources, device, flags);
  const LedgerBracket bracket(call, GPUPEAK_LEDGER_CONTEXT, device);
  const CUresult result = real(out, resources, device, flags);
  if (result == CUDA_SUCCESS) green_context_began(*static_cast<void**>(out), device);
  return result;
}

template <typename Real>
CUresult green_destroy(const ApiCall& call, Real real, void* green) {
  DriverScope scope;
  if (!scope.accounts()) return real(green);
  const LedgerBracket bracket(call, GPUPEAK_LEDGER_CONTEXT, device_of_green_context(green));
  const CUresult result = real(green);
  if (result == CUDA_SUCCESS) green_context_ended(green);
  return result;
}

template <typename Real>
CUresult primary_retain(const ApiCall& call, Real real, CUcontext* out, CUdevice device) {
  DriverScope scope;
  const bool was_active = scope.accounts() && primary_context_is_active(device);
  LedgerBracket bracket;
  if (scope.accounts() && !was_active) bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device);
  const CUresult result = real(out, device);
  if (scope.accounts() && result == CUDA_SUCCESS) {
    primary_context(device) = *out;
    if (!was_active) context_began(*out, device);
  }
  return result;
}

/// Release and Reset: the context is gone only when the driver says that it is inactive.
template <typename Real>
CUresult primary_end(const ApiCall& call, Real real, CUdevice device, gpupeak_context_event event) {
  DriverScope scope;
  LedgerBracket bracket;
  if (scope.accounts()) {
    read_unread_peaks();
    bracket.open(call, GPUPEAK_LEDGER_CONTEXT, device);
  }
  const CUresult result = real(device);
  if (scope.accounts() && result == CUDA_SUCCESS && !primary_context_is_active(device)) {
    context_ended(call, primary_context(device), event);
  }
  return result;
}

template <typename Real>
CUresult primary_release(const ApiCall& call, Real real, CUdevice device) {
  return primary_end(call, real, device, GPUPEAK_CONTEXT_DESTROYED);
}

template <typename Real>
CUresult primary_reset(const ApiCall& call, Real real, CUdevice device) {
  return primary_end(call, real, device, GPUPEAK_CONTEXT_RESET);
}

}  // namespace gpupeak::preload::calls
