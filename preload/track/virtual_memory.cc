#include "track/virtual_memory.h"

#include "base/hash_tables.h"
#include "base/hook_scope.h"
#include "base/lock.h"
#include "log/log.h"
#include "thread/emit.h"
#include "track/device_book.h"
#include "track/driver.h"
#include "track/last_use.h"

namespace gpupeak::preload {
namespace {

struct Handle {
  uint32_t references = 0;
  uint32_t mappings = 0;  ///< with those whose real calls have not returned yet
  uint32_t leaving = 0;   ///< releases and mappings whose ends' real calls have not returned yet
  bool freed = false;     ///< logged as free; kept in case the real call fails
  DeviceBlock block;      ///< the block when it was freed
};

/// A mapping at an address, or into a tile of a sparse array.
struct Mapping {
  uint64_t bytes = 0, array = 0;  ///< array: of a tile
  CUmemGenericAllocationHandle handle = 0;
  bool leaving = false;  ///< counted as gone; the real call has not returned yet
};

/// The smallest granularity of all drivers: the step in which a range's next mapping is looked for.
constexpr uint64_t kSmallestGranularity = 64 << 10;

/// Under the book's lock.
struct VirtualMemory {
  FlatMap<Handle> handles;
  FlatMap<Mapping> mappings, tiles;
};
constinit VirtualMemory g_vmm;

/// The driver may count handles from 0, but a key must not be 0.
uint64_t handle_key(CUmemGenericAllocationHandle handle) {
  return static_cast<uint64_t>(handle) + 1;
}
uint64_t block_key(CUmemGenericAllocationHandle handle) {
  return key_of(KeySpace::kHandle, handle_key(handle));
}

/// Calls `change()` or `change(site)` with the book's lock held. A nested call changes nothing, and
/// is counted as dropped.
template <typename Change>
void in_book(Change change) {
  HookScope scope;
  if (!scope.entered()) return count(&gpupeak_counters_page::dropped_events);
  const BookGuard guard;
  if (guard) change();
}
template <typename Change>
void in_book(const ApiCall& call, Change change) {
  const BookSite site(call);
  if (site) change(site);
}

void free_if_unused(const BookSite& site, CUmemGenericAllocationHandle handle, Handle& state) {
  if (state.references > 0 || state.mappings > 0 || state.freed) return;
  DeviceBlock* const known = g_book.blocks.find(block_key(handle));
  state.freed = take_block(known, state.block, site.api, site.stack);
}

/// Takes away one mapping of the handle's memory.
void leave(const BookSite& site, CUmemGenericAllocationHandle handle) {
  Handle* state = g_vmm.handles.find(handle_key(handle));
  if (state == nullptr || state->mappings == 0) return;
  --state->mappings;
  free_if_unused(site, handle, *state);
}
/// Counts the mapping as gone. It stays known until the real call has succeeded.
void leave(const BookSite& site, Mapping& mapping) {
  if (mapping.leaving) return;
  mapping.leaving = true;
  if (Handle* state = g_vmm.handles.find(handle_key(mapping.handle))) ++state->leaving;
  leave(site, mapping.handle);
}

void revive(CUmemGenericAllocationHandle handle, Handle& state) {
  if (!state.freed) return;
  put_back_block(block_key(handle), state.block);
  state.freed = false;
}

/// The real call of a release, or of a mapping's end, has returned.
Handle* has_left(CUmemGenericAllocationHandle handle) {
  Handle* state = g_vmm.handles.find(handle_key(handle));
  if (state != nullptr && state->leaving > 0) --state->leaving;  // else another has got it anew
  return state;
}

/// Puts back a mapping that leave() took away, since the real call failed.
void stay(Mapping& mapping) {
  if (!mapping.leaving) return;
  mapping.leaving = false;
  Handle* state = has_left(mapping.handle);
  if (state == nullptr) return;
  ++state->mappings;
  revive(mapping.handle, *state);
}

/// The real call that has freed the memory has succeeded: the handle stands for nothing any more,
/// unless another such call is still under way, or another thread has got it anew since then. Else
/// handles that the driver does not give again would pile up.
void forget_if_freed(CUmemGenericAllocationHandle handle) {
  const Handle* state = g_vmm.handles.find(handle_key(handle));
  if (state != nullptr && state->freed && state->references + state->mappings + state->leaving == 0)
    g_vmm.handles.erase(handle_key(handle));
}

/// The mapping is gone for good, or another one takes its place.
void gone(const Mapping* mapping) {
  if (mapping == nullptr || !mapping->leaving) return;
  has_left(mapping->handle);
  forget_if_freed(mapping->handle);
}

/// Calls `visit(address, mapping)` for the mappings that begin in the range, and forgets those for
/// which it is true. Looks step by step, or at all mappings, whichever is less work.
template <typename Visit>
void forget_mappings(CUdeviceptr at, uint64_t bytes, Visit visit) {
  if (bytes / kSmallestGranularity > g_vmm.mappings.size()) {
    return g_vmm.mappings.erase_if([&](uint64_t mapped_at, Mapping& mapping) {
      return mapped_at - at < bytes && visit(mapped_at, mapping);
    });
  }
  for (uint64_t offset = 0; offset < bytes;) {
    Mapping* const mapping = g_vmm.mappings.find(at + offset);
    const bool is_long = mapping != nullptr && mapping->bytes > 0;
    const uint64_t step = is_long ? mapping->bytes : kSmallestGranularity;
    if (mapping != nullptr && visit(at + offset, *mapping)) g_vmm.mappings.erase(mapping);
    offset += step;
  }
}

/// Logs where a block can be used. What arenas hand out of it lies at these addresses.
void log_mapped(CUdeviceptr at, uint64_t bytes, CUmemGenericAllocationHandle handle) {
  const DeviceBlock* block = g_book.blocks.find(block_key(handle));
  if (block == nullptr || block->id == 0) return;
  emit(Record{GPUPEAK_REC_DEVICE_MAPPED, at, bytes, block->id});
  if (watches_uses()) mapped_use_began(at, bytes, block->id);
}

}  // namespace

void vmm_created(const ApiCall& call, CUmemGenericAllocationHandle handle, gpupeak_kind kind,
                 int device, uint64_t bytes) {
  const BookSite site(call, device);
  if (!site) return;
  Handle* known = g_vmm.handles.find(handle_key(handle));
  if (known != nullptr && !known->freed) {
    ++known->references;  // the same memory imported again
    return;
  }
  g_vmm.handles.insert(handle_key(handle), {.references = 1, .block = {}});
  add_block(KeySpace::kHandle, handle_key(handle), {.bytes = bytes, .device = device, .kind = kind},
            site.api, site.stack);
}

uint64_t vmm_retaining(CUdeviceptr at) {
  uint64_t held = 0;
  in_book([&] {
    g_vmm.mappings.for_each([&](uint64_t mapped_at, const Mapping& mapping) {
      if (at - mapped_at < mapping.bytes) held = handle_key(mapping.handle);
    });
    if (Handle* state = g_vmm.handles.find(held)) ++state->mappings;
  });
  return held;
}

void vmm_retained(const ApiCall& call, uint64_t held, const CUmemGenericAllocationHandle* got) {
  in_book(call, [&](const BookSite& site) {
    Handle* state = got != nullptr ? g_vmm.handles.find(handle_key(*got)) : nullptr;
    if (state != nullptr) {
      ++state->references;
      revive(*got, *state);
    }
    if (held == 0) return;
    leave(site, held - 1);
    forget_if_freed(held - 1);
  });
}

bool vmm_releasing(const ApiCall& call, CUmemGenericAllocationHandle handle) {
  bool known = false;
  in_book(call, [&](const BookSite& site) {
    Handle* state = g_vmm.handles.find(handle_key(handle));
    known = state != nullptr && state->references > 0;
    if (!known) return;
    --state->references;
    ++state->leaving;
    free_if_unused(site, handle, *state);
  });
  return known;
}

void vmm_released(CUmemGenericAllocationHandle handle, bool done) {
  in_book([&] {
    Handle* state = has_left(handle);
    if (state == nullptr) return;
    if (done) return forget_if_freed(handle);
    ++state->references;
    revive(handle, *state);
  });
}

void vmm_mapping(CUmemGenericAllocationHandle handle) {
  in_book([&] {
    if (Handle* state = g_vmm.handles.find(handle_key(handle))) ++state->mappings;
  });
}

void vmm_not_mapped(const ApiCall& call, CUmemGenericAllocationHandle handle) {
  in_book(call, [&](const BookSite& site) {
    leave(site, handle);
    forget_if_freed(handle);
  });
}

void vmm_mapped(CUdeviceptr at, uint64_t bytes, CUmemGenericAllocationHandle handle) {
  in_book([&] {
    Handle* state = g_vmm.handles.find(handle_key(handle));
    if (state == nullptr) return;
    revive(handle, *state);
    gone(g_vmm.mappings.find(at));  // whose end another thread is still to tell of
    g_vmm.mappings.insert(at, {.bytes = bytes, .handle = handle});
    log_mapped(at, bytes, handle);
  });
}

void vmm_unmapping(const ApiCall& call, CUdeviceptr at, uint64_t bytes) {
  in_book(call, [&](const BookSite& site) {
    forget_mappings(at, bytes, [&](uint64_t mapped_at, Mapping& mapping) {
      if (!mapping.leaving) {
        if (watches_uses()) mapped_use_ended(mapped_at);
        emit(Record{GPUPEAK_REC_DEVICE_UNMAPPED, mapped_at, mapping.bytes});
      }
      leave(site, mapping);
      return false;  // only once the real call has succeeded
    });
  });
}

void vmm_unmapped(CUdeviceptr at, uint64_t bytes, bool done) {
  in_book([&] {
    forget_mappings(at, bytes, [done](uint64_t mapped_at, Mapping& mapping) {
      // Another thread may have mapped something new there meanwhile: that stays.
      if (!mapping.leaving) return false;
      if (done) {
        gone(&mapping);
      } else {
        stay(mapping);
        log_mapped(mapped_at, mapping.bytes, mapping.handle);
      }
      return done;
    });
  });
}

void vmm_tile_leaving(const ApiCall& call, uint64_t key) {
  in_book(call, [&](const BookSite& site) {
    if (Mapping* tile = g_vmm.tiles.find(key)) leave(site, *tile);
  });
}

void vmm_tile_mapped(const ApiCall& call, uint64_t key, uint64_t array,
                     CUmemGenericAllocationHandle handle) {
  in_book(call, [&](const BookSite& site) {
    if (Mapping* tile = g_vmm.tiles.find(key)) {
      leave(site, *tile);  // one list may map it twice
      gone(tile);
    }
    Handle* state = g_vmm.handles.find(handle_key(handle));
    if (state == nullptr) return g_vmm.tiles.erase(key);
    revive(handle, *state);
    g_vmm.tiles.insert(key, {.array = array, .handle = handle});
  });
}

void vmm_tile_unmapped(const ApiCall& call, uint64_t key) {
  in_book(call, [&](const BookSite& site) {
    Mapping* tile = g_vmm.tiles.find(key);
    if (tile == nullptr) return;
    leave(site, *tile);  // mapped by the same list
    gone(tile);
    g_vmm.tiles.erase(key);
  });
}

void vmm_tile_stays(uint64_t key) {
  in_book([&] {
    if (Mapping* tile = g_vmm.tiles.find(key)) stay(*tile);
  });
}

void vmm_array_leaving(const ApiCall& call, uint64_t array) {
  in_book(call, [&](const BookSite& site) {
    g_vmm.tiles.for_each([&](uint64_t, Mapping& tile) {
      if (tile.array == array) leave(site, tile);
    });
  });
}

void vmm_array_gone(uint64_t array, bool done) {
  in_book([=] {
    g_vmm.tiles.erase_if([=](uint64_t, Mapping& tile) {
      // A tile that is not leaving belongs to another array, which got the handle meanwhile.
      if (tile.array != array || !tile.leaving) return false;
      done ? gone(&tile) : stay(tile);
      return done;
    });
  });
}

void forget_virtual_memory() {
  g_vmm.handles.forget();
  g_vmm.mappings.forget();
  g_vmm.tiles.forget();
}

}  // namespace gpupeak::preload
