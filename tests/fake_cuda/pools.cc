// Stream-ordered pools. Memory is reserved in steps of 32 MiB. The memory of freed blocks stays
// reserved until a trim, or until a synchronise while more is reserved than the threshold. Work
// takes no time here, so a freed block is free at once.
#include <algorithm>

#include "export.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kPoolStep = 512;

void note_high(Pool& pool) {
  pool.used_high = std::max(pool.used_high, pool.used);
  pool.reserved_high = std::max(pool.reserved_high, pool.arena.reserved());
}

void release_unused(Pool& pool, uint64_t keep) {
  const uint64_t released = pool.arena.release_unused(keep);
  if (pool.device < 0 || released == 0) return;
  give_memory(pool.device, released);
  ledger_remove(pool.device, Kind::pool_reserved, released);
}

void add_used(const Pool& pool, uint64_t bytes) {
  if (pool.device < 0)
    ledger_add(-1, Kind::host_vmm, bytes);
  else
    ledger_add(pool.device, Kind::pool_used, bytes);
}

void remove_used(const Pool& pool, uint64_t bytes) {
  if (pool.device < 0)
    ledger_remove(-1, Kind::host_vmm, bytes);
  else
    ledger_remove(pool.device, Kind::pool_used, bytes);
}

void forget_if_unused(Pool* pool) {
  if (!pool->destroyed || pool->blocks > 0) return;
  release_unused(*pool, 0);
  driver().pools.remove(pool);
}

CUresult allocate(CUdeviceptr* out, uint64_t bytes, Pool* pool) {
  const uint64_t growth = pool->arena.growth_for(bytes);
  if (!take_memory(pool->device, growth)) {
    for (const auto& device : driver().devices) {
      if (device->ordinal == pool->device) pools_give_back(pool->device);
    }
    if (!take_memory(pool->device, growth)) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  const CUdeviceptr at = pool->arena.allocate(bytes);
  if (at == 0) {
    give_memory(pool->device, growth);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (pool->device >= 0 && growth > 0) ledger_add(pool->device, Kind::pool_reserved, growth);
  driver().blocks[at] = {
      .owner = Block::Owner::pool, .bytes = bytes, .device = pool->device, .pool = pool};
  add_used(*pool, bytes);
  pool->used += round_up(bytes, kPoolStep);
  ++pool->blocks;
  note_high(*pool);
  *out = at;
  return CUDA_SUCCESS;
}

/// A captured call takes addresses for the graph; the graph takes memory when it is launched.
CUresult capture_alloc(CUdeviceptr* out, uint64_t bytes, Stream& stream) {
  const CUdeviceptr at = reserve_addresses(round_up(bytes, kPage));
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  stream.graph->allocations[at] = bytes;
  *out = at;
  return CUDA_SUCCESS;
}

CUresult alloc_from(CUdeviceptr* out, size_t bytes, Pool* pool, CUstream handle) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  bool default_stream = false;
  Stream* const stream = stream_of(handle, default_stream);
  if (stream == nullptr && !default_stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream != nullptr && stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return capture_alloc(out, bytes, *stream);
  }
  if (pool == nullptr) {
    Device& device = *device_of(stream != nullptr ? stream->context->device : context->device);
    pool = device.current_pool != nullptr ? device.current_pool : default_pool(device);
  }
  return allocate(out, bytes, pool);
}

CUresult alloc_async(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return alloc_from(out, bytes, nullptr, stream);
}

Pool* live_pool(CUmemoryPool handle) {
  Pool* const pool = driver().pools.find(handle);
  return pool != nullptr && !pool->destroyed ? pool : nullptr;
}

CUresult alloc_from_pool_async(CUdeviceptr* out, size_t bytes, CUmemoryPool handle,
                               CUstream stream) {
  Pool* const pool = live_pool(handle);
  return pool != nullptr ? alloc_from(out, bytes, pool, stream) : CUDA_ERROR_INVALID_VALUE;
}

CUresult free_async(CUdeviceptr at, CUstream handle) {
  bool default_stream = false;
  Stream* const stream = stream_of(handle, default_stream);
  if (stream == nullptr && !default_stream) return CUDA_ERROR_INVALID_HANDLE;
  if (stream != nullptr && stream->capture == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
    return stream->graph->allocations.count(at) != 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  }
  const auto found = driver().blocks.find(at);
  if (found == driver().blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  if (found->second.owner == Block::Owner::managed) return CUDA_ERROR_INVALID_VALUE;
  return free_pointer(at);
}

CUresult create(CUmemoryPool* out, const CUmemPoolProps* properties) {
  if (out == nullptr || properties == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool on_device = properties->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (on_device && device_of(properties->location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Pool* const pool = driver().pools.add();
  pool->device = on_device ? properties->location.id : -1;
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

CUresult destroy(CUmemoryPool handle) {
  Pool* const pool = live_pool(handle);
  if (pool == nullptr || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  for (const auto& device : driver().devices) {
    if (device->current_pool == pool) device->current_pool = nullptr;
  }
  pool->destroyed = true;
  forget_if_unused(pool);
  return CUDA_SUCCESS;
}

CUresult trim(CUmemoryPool handle, size_t keep) {
  Pool* const pool = live_pool(handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  release_unused(*pool, keep);
  return CUDA_SUCCESS;
}

CUresult get_attribute(CUmemoryPool handle, CUmemPool_attribute which, void* out) {
  Pool* const pool = live_pool(handle);
  if (pool == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto put = [&](uint64_t value) {
    *static_cast<cuuint64_t*>(out) = value;
    return CUDA_SUCCESS;
  };
  switch (which) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return put(pool->threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return put(pool->arena.reserved());
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return put(pool->reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return put(pool->used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return put(pool->used_high);
    default:
      break;
  }
  const auto found = pool->switches.find(which);
  *static_cast<int*>(out) = found != pool->switches.end() ? found->second : 1;
  return CUDA_SUCCESS;
}

CUresult set_attribute(CUmemoryPool handle, CUmemPool_attribute which, void* in) {
  Pool* const pool = live_pool(handle);
  if (pool == nullptr || in == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const bool high =
      which == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH || which == CU_MEMPOOL_ATTR_USED_MEM_HIGH;
  if (high) {  // a high-water mark can only be reset
    if (*static_cast<cuuint64_t*>(in) != 0) return CUDA_ERROR_INVALID_VALUE;
    if (which == CU_MEMPOOL_ATTR_USED_MEM_HIGH)
      pool->used_high = pool->used;
    else
      pool->reserved_high = pool->arena.reserved();
  } else if (which == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) {
    pool->threshold = *static_cast<cuuint64_t*>(in);
  } else if (which == CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT ||
             which == CU_MEMPOOL_ATTR_USED_MEM_CURRENT) {
    return CUDA_ERROR_INVALID_VALUE;
  } else {
    pool->switches[which] = *static_cast<int*>(in);
  }
  return CUDA_SUCCESS;
}

CUresult set_access(CUmemoryPool handle, const CUmemAccessDesc*, size_t) {
  return live_pool(handle) != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult device_default_pool(CUmemoryPool* out, CUdevice ordinal) {
  Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  *out = reinterpret_cast<CUmemoryPool>(default_pool(*device));
  return CUDA_SUCCESS;
}

CUresult device_pool(CUmemoryPool* out, CUdevice ordinal) {
  Device* const device = device_of(ordinal);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  Pool* const pool = device->current_pool != nullptr ? device->current_pool : default_pool(*device);
  *out = reinterpret_cast<CUmemoryPool>(pool);
  return CUDA_SUCCESS;
}

CUresult set_device_pool(CUdevice ordinal, CUmemoryPool handle) {
  Device* const device = device_of(ordinal);
  Pool* const pool = live_pool(handle);
  if (device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  if (pool == nullptr || pool->device != ordinal) return CUDA_ERROR_INVALID_VALUE;
  device->current_pool = pool;
  return CUDA_SUCCESS;
}

}  // namespace

Pool* default_pool(Device& device) {
  if (device.default_pool == nullptr) {
    device.default_pool = driver().pools.add();
    device.default_pool->device = device.ordinal;
    device.default_pool->is_default = true;
  }
  return device.default_pool;
}

void pools_give_back(int device) {
  driver().pools.for_each([&](Pool& pool) {
    if (pool.device == device) release_unused(pool, pool.threshold);
  });
}

void remove_pool_block(CUdeviceptr at, const Block& block) {
  Pool* const pool = block.pool;
  pool->arena.free(at);
  remove_used(*pool, block.bytes);
  pool->used -= round_up(block.bytes, kPoolStep);
  --pool->blocks;
  forget_if_unused(pool);
}

FAKE_CUDA_EXPORT_BOTH(cuMemAllocAsync, "cuMemAllocAsync", 11020, alloc_async,
                      (CUdeviceptr * out, size_t bytes, CUstream stream), (out, bytes, stream))
FAKE_CUDA_EXPORT_BOTH(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020,
                      alloc_from_pool_async,
                      (CUdeviceptr * out, size_t bytes, CUmemoryPool pool, CUstream stream),
                      (out, bytes, pool, stream))
FAKE_CUDA_EXPORT_BOTH(cuMemFreeAsync, "cuMemFreeAsync", 11020, free_async,
                      (CUdeviceptr at, CUstream stream), (at, stream))
FAKE_CUDA_EXPORT(cuMemPoolCreate, "cuMemPoolCreate", 11020, create,
                 (CUmemoryPool * out, const CUmemPoolProps* properties), (out, properties))
FAKE_CUDA_EXPORT(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, destroy, (CUmemoryPool pool), (pool))
FAKE_CUDA_EXPORT(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, trim, (CUmemoryPool pool, size_t keep),
                 (pool, keep))
FAKE_CUDA_EXPORT(cuMemPoolGetAttribute, "cuMemPoolGetAttribute", 11020, get_attribute,
                 (CUmemoryPool pool, CUmemPool_attribute which, void* out), (pool, which, out))
FAKE_CUDA_EXPORT(cuMemPoolSetAttribute, "cuMemPoolSetAttribute", 11020, set_attribute,
                 (CUmemoryPool pool, CUmemPool_attribute which, void* in), (pool, which, in))
FAKE_CUDA_EXPORT(cuMemPoolSetAccess, "cuMemPoolSetAccess", 11020, set_access,
                 (CUmemoryPool pool, const CUmemAccessDesc* access, size_t count),
                 (pool, access, count))
FAKE_CUDA_EXPORT(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, device_default_pool,
                 (CUmemoryPool * out, CUdevice device), (out, device))
FAKE_CUDA_EXPORT(cuDeviceGetMemPool, "cuDeviceGetMemPool", 11020, device_pool,
                 (CUmemoryPool * out, CUdevice device), (out, device))
FAKE_CUDA_EXPORT(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, set_device_pool,
                 (CUdevice device, CUmemoryPool pool), (device, pool))

}  // namespace fake_cuda
