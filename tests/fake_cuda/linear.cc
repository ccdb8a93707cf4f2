// cuMemAlloc and similar calls. A block of up to 1 MiB lies in a shared 2 MiB chunk, a larger one
// has whole 2 MiB pages. Managed memory takes only addresses, until fake_cuda_touch().
#include <algorithm>
#include <limits>

#include "config.h"
#include "costs.h"
#include "export.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kLargestSmallBlock = kMiB;
constexpr uint64_t kPitchStep = 512;

/// Takes physical memory and addresses for a linear block; false if there is none.
bool place(Block& block, uint64_t bytes, CUdeviceptr& at, bool low) {
  Device& device = *device_of(block.device);
  if (bytes <= kLargestSmallBlock) {
    block.arena = low ? &device.low_blocks : &device.small_blocks;
    const uint64_t growth = block.arena->growth_for(bytes);
    if (!take_memory(block.device, growth)) return false;
    at = block.arena->allocate(bytes);
    if (at == 0) give_memory(block.device, growth);
  } else {
    block.physical = round_up(bytes, kPage);
    if (!take_memory(block.device, block.physical)) return false;
    at = reserve_addresses(block.physical, kPage, low);
    if (at == 0) give_memory(block.device, block.physical);
  }
  return at != 0;
}

CUresult allocate(CUdeviceptr* out, uint64_t bytes, bool low,
                  Block::Owner owner = Block::Owner::linear) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  if (any_stream_captures(CU_STREAM_CAPTURE_MODE_GLOBAL))
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  Block block{.owner = owner, .bytes = bytes, .device = context->device, .context = context};
  CUdeviceptr at = 0;
  if (bytes > config().memory_bytes || !place(block, bytes, at, low))
    return CUDA_ERROR_OUT_OF_MEMORY;
  driver().blocks[at] = block;
  if (owner == Block::Owner::linear) ledger_add(block.device, Kind::linear, bytes);
  *out = at;
  return CUDA_SUCCESS;
}

template <typename Pointer, typename Size>
CUresult mem_alloc(Pointer* out, Size bytes) {
  CUdeviceptr at = 0;
  const CUresult result = allocate(&at, bytes, sizeof(Pointer) == 4);
  if (result == CUDA_SUCCESS) *out = static_cast<Pointer>(at);
  return result;
}

template <typename Pointer, typename Size>
CUresult mem_alloc_pitch(Pointer* out, Size* pitch, Size width, Size height, unsigned element) {
  if (pitch == nullptr || (element != 4 && element != 8 && element != 16))
    return CUDA_ERROR_INVALID_VALUE;
  const uint64_t row = round_up(width, kPitchStep);
  const CUresult result = mem_alloc(out, row * static_cast<uint64_t>(height));
  if (result == CUDA_SUCCESS) *pitch = static_cast<Size>(row);
  return result;
}

CUresult mem_alloc_managed(CUdeviceptr* out, size_t bytes, unsigned flags) {
  if (out == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  const CUdeviceptr at = reserve_addresses(round_up(bytes, kPage));
  if (at == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  driver().blocks[at] = {.owner = Block::Owner::managed,
                         .bytes = bytes,
                         .device = context->device,
                         .context = context};
  ledger_add(context->device, Kind::managed, bytes);
  *out = at;
  return CUDA_SUCCESS;
}

void give_back(CUdeviceptr at, const Block& block) {
  if (block.owner == Block::Owner::pool) return remove_pool_block(at, block);
  if (block.owner == Block::Owner::graph) return;  // the graph keeps its memory
  if (block.owner == Block::Owner::linear) ledger_remove(block.device, Kind::linear, block.bytes);
  if (block.owner == Block::Owner::imported) {
    ledger_remove(block.device, Kind::imported, block.bytes);
    return release_addresses(at, block.physical);
  }
  if (block.owner == Block::Owner::managed) {
    ledger_remove(block.device, Kind::managed, block.bytes);
    charge(block.device, Cost::managed, -static_cast<int64_t>(block.resident));
    release_addresses(at, round_up(block.bytes, kPage));
  } else if (block.arena != nullptr) {
    block.arena->free(at);
    give_memory(block.device, block.arena->release_unused(0));
  } else {
    release_addresses(at, block.physical);
    give_memory(block.device, block.physical);
  }
}

template <typename Size>
CUresult mem_get_info(Size* free_bytes, Size* total) {
  const Context* const context = current_context();
  if (context == nullptr) return no_context();
  const auto narrow = [](uint64_t value) {
    return static_cast<Size>(std::min<uint64_t>(value, std::numeric_limits<Size>::max()));
  };
  if (total != nullptr) *total = narrow(config().memory_bytes);
  if (free_bytes != nullptr)
    *free_bytes = narrow(config().memory_bytes - in_use(*device_of(context->device)));
  return CUDA_SUCCESS;
}

template <typename Pointer, typename Size>
CUresult address_range(Pointer* base, Size* bytes, Pointer at) {
  auto& blocks = driver().blocks;
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin()) return CUDA_ERROR_NOT_FOUND;
  --found;
  if (at - found->first >= found->second.bytes) return CUDA_ERROR_NOT_FOUND;
  if (base != nullptr) *base = static_cast<Pointer>(found->first);
  if (bytes != nullptr) *bytes = static_cast<Size>(found->second.bytes);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult free_pointer(CUdeviceptr at) {
  if (at == 0) return CUDA_SUCCESS;
  auto& blocks = driver().blocks;
  const auto found = blocks.find(at);
  if (found == blocks.end()) return CUDA_ERROR_INVALID_VALUE;
  const Block block = found->second;
  blocks.erase(found);
  give_back(at, block);
  return CUDA_SUCCESS;
}

void free_blocks_of(Context* context) {
  auto& blocks = driver().blocks;
  for (auto at = blocks.begin(); at != blocks.end();) {
    // Pool memory belongs to its pool, which no context owns.
    const bool dies = at->second.context == context && at->second.owner != Block::Owner::pool;
    if (dies) give_back(at->first, at->second);
    at = dies ? blocks.erase(at) : std::next(at);
  }
}

FAKE_CUDA_EXPORT(cuMemAlloc, "cuMemAlloc", 2000, mem_alloc, (unsigned* out, unsigned bytes),
                 (out, bytes))
FAKE_CUDA_EXPORT(cuMemAlloc_v2, "cuMemAlloc", 3020, mem_alloc, (CUdeviceptr * out, size_t bytes),
                 (out, bytes))
FAKE_CUDA_EXPORT(cuMemAllocPitch, "cuMemAllocPitch", 2000, mem_alloc_pitch,
                 (unsigned* out, unsigned* pitch, unsigned width, unsigned height,
                  unsigned element),
                 (out, pitch, width, height, element))
FAKE_CUDA_EXPORT(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, mem_alloc_pitch,
                 (CUdeviceptr * out, size_t* pitch, size_t width, size_t height, unsigned element),
                 (out, pitch, width, height, element))
FAKE_CUDA_EXPORT(cuMemFree, "cuMemFree", 2000, free_pointer, (unsigned at), (at))
FAKE_CUDA_EXPORT(cuMemFree_v2, "cuMemFree", 3020, free_pointer, (CUdeviceptr at), (at))
FAKE_CUDA_EXPORT(cuMemAllocManaged, "cuMemAllocManaged", 6000, mem_alloc_managed,
                 (CUdeviceptr * out, size_t bytes, unsigned flags), (out, bytes, flags))
FAKE_CUDA_EXPORT(cuMemGetInfo, "cuMemGetInfo", 2000, mem_get_info,
                 (unsigned* free_bytes, unsigned* total), (free_bytes, total))
FAKE_CUDA_EXPORT(cuMemGetInfo_v2, "cuMemGetInfo", 3020, mem_get_info,
                 (size_t * free_bytes, size_t* total), (free_bytes, total))
FAKE_CUDA_EXPORT(cuMemGetAddressRange, "cuMemGetAddressRange", 2000, address_range,
                 (unsigned* base, unsigned* bytes, unsigned at), (base, bytes, at))
FAKE_CUDA_EXPORT(cuMemGetAddressRange_v2, "cuMemGetAddressRange", 3020, address_range,
                 (CUdeviceptr * base, size_t* bytes, CUdeviceptr at), (base, bytes, at))

// The GPU touches managed memory, as a kernel would. From then on it takes pages of the device.
extern "C" __attribute__((visibility("default"))) void fake_cuda_touch(unsigned long long at);
void fake_cuda_touch(unsigned long long at) {
  const std::lock_guard guard(driver().lock);
  const auto found = driver().blocks.find(at);
  if (found == driver().blocks.end() || found->second.owner != Block::Owner::managed) return;
  Block& block = found->second;
  const uint64_t bytes = round_up(block.bytes, kPage);
  if (block.resident == 0 && config().costs &&
      charge(block.device, Cost::managed, static_cast<int64_t>(bytes)))
    block.resident = bytes;
}

// Makes a block that no hook sees, as private entry points of a real driver do. For tests of frees
// of pointers that were never seen. The block is in no ledger.
extern "C" __attribute__((visibility("default"))) unsigned long long fake_cuda_alloc_unseen(
    unsigned long long bytes);
unsigned long long fake_cuda_alloc_unseen(unsigned long long bytes) {
  const std::lock_guard guard(driver().lock);
  CUdeviceptr at = 0;
  return allocate(&at, bytes, false, Block::Owner::unseen) == CUDA_SUCCESS ? at : 0;
}

}  // namespace fake_cuda
