// Calls that ask what is behind an address.
#include "export.h"

namespace fake_cuda {
namespace {

/// The block that holds `at`, or null.
const Block* block_at(CUdeviceptr at, CUdeviceptr& base) {
  const auto& blocks = driver().blocks;
  auto found = blocks.upper_bound(at);
  if (found == blocks.begin()) return nullptr;
  --found;
  base = found->first;
  return at - base < found->second.bytes ? &found->second : nullptr;
}

CUresult attribute_of(void* out, CUpointer_attribute which, const Block& block, CUdeviceptr base) {
  switch (which) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(out) = handle_of(block.context);
      break;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<CUmemorytype*>(out) =
          block.device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<CUdeviceptr*>(out) = base;
      break;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      *static_cast<size_t*>(out) = block.bytes;
      break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(out) = block.owner == Block::Owner::managed ? 1 : 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(out) = block.device;
      break;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      *static_cast<unsigned*>(out) = block.owner == Block::Owner::linear ? 1 : 0;
      break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      *static_cast<CUmemoryPool*>(out) = reinterpret_cast<CUmemoryPool>(block.pool);
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  return CUDA_SUCCESS;
}

CUresult get_one(void* out, CUpointer_attribute which, CUdeviceptr at) {
  CUdeviceptr base = 0;
  const Block* const block = block_at(at, base);
  return block != nullptr ? attribute_of(out, which, *block, base) : CUDA_ERROR_INVALID_VALUE;
}

/// Unlike the call for one attribute, this succeeds for unknown addresses and leaves zeros.
CUresult get_many(unsigned count, CUpointer_attribute* which, void** out, CUdeviceptr at) {
  CUdeviceptr base = 0;
  const Block* const block = block_at(at, base);
  if (block == nullptr) base = 0;
  Block none;
  none.device = -2;  // no device has this number
  for (unsigned i = 0; i < count; ++i)
    attribute_of(out[i], which[i], block != nullptr ? *block : none, base);
  return CUDA_SUCCESS;
}

}  // namespace

FAKE_CUDA_EXPORT(cuPointerGetAttribute, "cuPointerGetAttribute", 4000, get_one,
                 (void* out, CUpointer_attribute which, CUdeviceptr at), (out, which, at))
FAKE_CUDA_EXPORT(cuPointerGetAttributes, "cuPointerGetAttributes", 7000, get_many,
                 (unsigned count, CUpointer_attribute* which, void** out, CUdeviceptr at),
                 (count, which, out, at))

}  // namespace fake_cuda
