// Memory of cuMemCreate. It lives as long as its handle has references or it is mapped anywhere.
// The end of a context does not free it. HOOK-SAFE; see device_memory.h.
#pragma once

#include "track/device_memory.h"

namespace gpupeak::preload {

/// cuMemCreate, or cuMemImportFromShareableHandle (kind IMPORTED: another process owns the bytes).
void vmm_created(const ApiCall& call, CUmemGenericAllocationHandle handle, gpupeak_kind kind,
                 int device, uint64_t bytes);
/// Around cuMemRetainAllocationHandle of what is mapped at an address. Until the second call the
/// memory is kept, since another thread may unmap it. `got`: the handle with one more reference,
/// or null. `held`: what the first call returned.
uint64_t vmm_retaining(CUdeviceptr at);
void vmm_retained(const ApiCall& call, uint64_t held, const CUmemGenericAllocationHandle* got);
// In what follows `done` says whether the real call succeeded.

/// Call it before cuMemRelease. True if a reference was known and is taken away; then call the next
/// one, too. A program may release once too often.
bool vmm_releasing(const ApiCall& call, CUmemGenericAllocationHandle handle);
void vmm_released(CUmemGenericAllocationHandle handle, bool done);

/// Call it before memory is mapped, also into a tile: another thread may release the handle before
/// the call returns. Then tell of the mapping, or call vmm_not_mapped().
void vmm_mapping(CUmemGenericAllocationHandle handle);
void vmm_not_mapped(const ApiCall& call, CUmemGenericAllocationHandle handle);
void vmm_mapped(CUdeviceptr at, uint64_t bytes, CUmemGenericAllocationHandle handle);
/// Around cuMemUnmap of a range, which may have several mappings and holes.
void vmm_unmapping(const ApiCall& call, CUdeviceptr at, uint64_t bytes);
void vmm_unmapped(CUdeviceptr at, uint64_t bytes, bool done);
/// A tile of a sparse array is a mapping, too. `tile`: a hash of the array and of the place in it.
/// Call it before cuMemMapArrayAsync maps or unmaps a tile: the old mapping goes in either case.
/// Then call exactly one of the next three.
void vmm_tile_leaving(const ApiCall& call, uint64_t tile);
void vmm_tile_mapped(const ApiCall& call, uint64_t tile, uint64_t array,
                     CUmemGenericAllocationHandle handle);
void vmm_tile_unmapped(const ApiCall& call, uint64_t tile);
void vmm_tile_stays(uint64_t tile);
/// Around the end of an array, and of all its tiles with it: another thread may get its handle
/// before the call returns.
void vmm_array_leaving(const ApiCall& call, uint64_t array);
void vmm_array_gone(uint64_t array, bool done);
/// In a forked child. Holds the book's lock.
void forget_virtual_memory();

}  // namespace gpupeak::preload
