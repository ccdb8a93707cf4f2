#include "track/virtual_memory.h"

#include "base/flat_map.h"
#include "base/hook_scope.h"
#include "base/process_state.h"
#include "base/spinlock.h"
#include "thread/emit.h"

namespace gpupeak::preload {
namespace {

struct Handle {
  uint32_t references = 0;
  uint32_t mappings = 0;
  bool freed = false;  ///< logged as free; kept until the real call is known to have succeeded
  DeviceBlock block;   ///< as it was when freed
};

struct Mapping {
  uint64_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
  bool unmapping = false;  ///< taken back already, the real cuMemUnmap has not returned yet
};

/// Of the granularities that drivers have, the smallest: how far to look for a range's next
/// mapping.
constexpr uint64_t kSmallestGranularity = 64 << 10;

struct Tile {
  uint64_t array = 0;
  CUmemGenericAllocationHandle handle = 0;
};

struct VirtualMemory {
  SpinLock lock;  ///< outside of the device memory's
  FlatMap<Handle> handles;
  FlatMap<Mapping> mappings;
  FlatMap<Tile> tiles;
};
constinit VirtualMemory g_vmm;

/// The driver may give handles the value 0 … n; keys must not be 0.
uint64_t handle_key(CUmemGenericAllocationHandle handle) {
  return static_cast<uint64_t>(handle) + 1;
}

void free_if_unused(const ApiCall& call, CUmemGenericAllocationHandle handle, Handle& state) {
  if (state.references > 0 || state.mappings > 0 || state.freed) return;
  state.freed = device_freeing(call, KeySpace::kHandle, handle_key(handle), state.block);
}

void revive(CUmemGenericAllocationHandle handle, Handle& state) {
  if (!state.freed) return;
  device_not_freed(KeySpace::kHandle, handle_key(handle), state.block);
  state.freed = false;
}

/// Calls `visit(address, mapping)` for the mappings that begin in the range.
template <typename Visit>
void for_each_mapping(CUdeviceptr at, uint64_t bytes, Visit visit) {
  for (uint64_t offset = 0; offset < bytes;) {
    Mapping* mapping = g_vmm.mappings.find(at + offset);
    if (mapping != nullptr) visit(at + offset, *mapping);
    offset += mapping != nullptr && mapping->bytes > 0 ? mapping->bytes : kSmallestGranularity;
  }
}

/// Where a block can be used: what pools hand out lies there, not at the handle.
void log_mapped(CUdeviceptr at, uint64_t bytes, CUmemGenericAllocationHandle handle) {
  DeviceBlock block;
  if (!device_find(KeySpace::kHandle, handle_key(handle), block) || block.id == 0) return;
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  Record record(GPUPEAK_REC_DEVICE_MAPPED);
  emit(record.u(at).u(bytes).u(block.id));
}

void log_unmapped(CUdeviceptr at, uint64_t bytes) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  Record record(GPUPEAK_REC_DEVICE_UNMAPPED);
  emit(record.u(at).u(bytes));
}

void drop_tile(const ApiCall& call, uint64_t key) {
  const Tile* tile = g_vmm.tiles.find(key);
  if (tile == nullptr) return;
  const CUmemGenericAllocationHandle handle = tile->handle;
  g_vmm.tiles.erase(key);
  Handle* state = g_vmm.handles.find(handle_key(handle));
  if (state == nullptr || state->mappings == 0) return;
  --state->mappings;
  free_if_unused(call, handle, *state);
}

}  // namespace

void vmm_created(const ApiCall& call, CUmemGenericAllocationHandle handle, gpupeak_kind kind,
                 int device, uint64_t bytes) {
  {
    LockGuard guard(g_vmm.lock);
    Handle state;
    if (const Handle* known = g_vmm.handles.find(handle_key(handle));
        known != nullptr && !known->freed) {
      state = *known;  // the same memory imported again
      ++state.references;
      g_vmm.handles.insert(handle_key(handle), state);
      return;
    }
    state.references = 1;
    g_vmm.handles.insert(handle_key(handle), state);
  }
  device_allocated(call, KeySpace::kHandle, handle_key(handle),
                   {.bytes = bytes, .device = device, .kind = kind});
}

void vmm_retained(CUmemGenericAllocationHandle handle) {
  LockGuard guard(g_vmm.lock);
  if (Handle* state = g_vmm.handles.find(handle_key(handle))) ++state->references;
}

bool vmm_releasing(const ApiCall& call, CUmemGenericAllocationHandle handle) {
  LockGuard guard(g_vmm.lock);
  Handle* state = g_vmm.handles.find(handle_key(handle));
  if (state == nullptr || state->references == 0) return false;
  --state->references;
  free_if_unused(call, handle, *state);
  return true;
}

void vmm_not_released(CUmemGenericAllocationHandle handle) {
  LockGuard guard(g_vmm.lock);
  Handle* state = g_vmm.handles.find(handle_key(handle));
  if (state == nullptr) return;
  ++state->references;
  revive(handle, *state);
}

void vmm_mapped(CUdeviceptr at, uint64_t bytes, CUmemGenericAllocationHandle handle) {
  LockGuard guard(g_vmm.lock);
  Handle* state = g_vmm.handles.find(handle_key(handle));
  if (state == nullptr) return;
  ++state->mappings;
  g_vmm.mappings.insert(at, {.bytes = bytes, .handle = handle});
  log_mapped(at, bytes, handle);
}

void vmm_unmapping(const ApiCall& call, CUdeviceptr at, uint64_t bytes) {
  LockGuard guard(g_vmm.lock);
  for_each_mapping(at, bytes, [&](uint64_t mapped_at, Mapping& mapping) {
    if (mapping.unmapping) return;
    mapping.unmapping = true;
    log_unmapped(mapped_at, mapping.bytes);
    Handle* state = g_vmm.handles.find(handle_key(mapping.handle));
    if (state == nullptr || state->mappings == 0) return;
    --state->mappings;
    free_if_unused(call, mapping.handle, *state);
  });
}

void vmm_unmapped(CUdeviceptr at, uint64_t bytes) {
  LockGuard guard(g_vmm.lock);
  for (uint64_t offset = 0; offset < bytes;) {
    const Mapping* mapping = g_vmm.mappings.find(at + offset);
    const uint64_t step =
        mapping != nullptr && mapping->bytes > 0 ? mapping->bytes : kSmallestGranularity;
    // Another thread may have mapped something new there meanwhile: that stays.
    if (mapping != nullptr && mapping->unmapping) g_vmm.mappings.erase(at + offset);
    offset += step;
  }
}

void vmm_not_unmapped(CUdeviceptr at, uint64_t bytes) {
  LockGuard guard(g_vmm.lock);
  for_each_mapping(at, bytes, [&](uint64_t mapped_at, Mapping& mapping) {
    if (!mapping.unmapping) return;
    mapping.unmapping = false;
    Handle* state = g_vmm.handles.find(handle_key(mapping.handle));
    if (state == nullptr) return;
    ++state->mappings;
    revive(mapping.handle, *state);
    log_mapped(mapped_at, mapping.bytes, mapping.handle);
  });
}

void vmm_tile_mapped(const ApiCall& call, uint64_t tile, uint64_t array,
                     CUmemGenericAllocationHandle handle) {
  LockGuard guard(g_vmm.lock);
  drop_tile(call, tile);  // mapped anew in its place
  Handle* state = g_vmm.handles.find(handle_key(handle));
  if (state == nullptr) return;
  ++state->mappings;
  g_vmm.tiles.insert(tile, {.array = array, .handle = handle});
}

void vmm_tile_unmapped(const ApiCall& call, uint64_t tile) {
  LockGuard guard(g_vmm.lock);
  drop_tile(call, tile);
}

void vmm_array_destroyed(const ApiCall& call, uint64_t array) {
  LockGuard guard(g_vmm.lock);
  for (;;) {
    uint64_t tile = 0;
    g_vmm.tiles.for_each([&](uint64_t key, const Tile& of) {
      if (of.array == array) tile = key;
    });
    if (tile == 0) return;
    drop_tile(call, tile);
  }
}

void forget_virtual_memory() {
  g_vmm.lock.reset();
  g_vmm.handles.forget();
  g_vmm.mappings.forget();
  g_vmm.tiles.forget();
}

}  // namespace gpupeak::preload
