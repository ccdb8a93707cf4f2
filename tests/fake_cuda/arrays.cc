// Arrays. They are accounted as width x height x depth x channels x bytes of a channel, and take
// memory in steps of 64 KiB.
#include <algorithm>

#include "export.h"

namespace fake_cuda {
namespace {

constexpr uint64_t kArrayStep = 64 << 10;
constexpr unsigned kNoMemoryYet = CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING;

/// Bytes of a channel; 0 for formats that are not simulated.
uint64_t channel_bytes(CUarray_format format) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    default:
      return 0;
  }
}

uint64_t or_one(uint64_t extent) {
  return std::max<uint64_t>(extent, 1);
}

CUresult create_with(void** out, const CUDA_ARRAY3D_DESCRIPTOR& d, unsigned levels) {
  if (out == nullptr || d.Width == 0 || levels == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t texel = channel_bytes(d.Format) * d.NumChannels;
  if (texel == 0 || d.NumChannels == 3 || d.NumChannels > 4) return CUDA_ERROR_INVALID_VALUE;
  Context* const context = current_context();
  if (context == nullptr) return no_context();
  Array array{.context = context, .device = context->device, .descriptor = d};
  const bool layered = (d.Flags & CUDA_ARRAY3D_LAYERED) != 0;
  for (unsigned level = 0; level < levels && (d.Flags & kNoMemoryYet) == 0; ++level) {
    const uint64_t depth = layered ? or_one(d.Depth) : or_one(d.Depth >> level);
    array.bytes += or_one(d.Width >> level) * or_one(d.Height >> level) * depth * texel;
  }
  array.physical = round_up(array.bytes, kArrayStep);
  if (!take_memory(array.device, array.physical)) return CUDA_ERROR_OUT_OF_MEMORY;
  ledger_add(array.device, Kind::array, array.bytes);
  *out = driver().arrays.add(array);
  return CUDA_SUCCESS;
}

/// Creates an array from a descriptor of either ABI, with or without a depth.
template <typename Descriptor>
CUresult create(CUarray* out, const Descriptor* d) {
  if (d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR full{};
  full.Width = d->Width;
  full.Height = d->Height;
  full.Format = d->Format;
  full.NumChannels = d->NumChannels;
  if constexpr (requires { d->Depth; }) {
    full.Depth = d->Depth;
    full.Flags = d->Flags;
  }
  return create_with(reinterpret_cast<void**>(out), full, 1);
}

CUresult create_mipmapped(CUmipmappedArray* out, const CUDA_ARRAY3D_DESCRIPTOR* d,
                          unsigned levels) {
  if (d == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned most = 1;
  while ((std::max({d->Width, d->Height, d->Depth}) >> most) > 0) ++most;
  return create_with(reinterpret_cast<void**>(out), *d, std::min(levels, most));
}

void give_back(const Array& array) {
  unmap_tiles_of(&array);
  ledger_remove(array.device, Kind::array, array.bytes);
  give_memory(array.device, array.physical);
}

template <typename Handle>
CUresult destroy(Handle handle) {
  Array* const array = driver().arrays.find(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  give_back(*array);
  driver().arrays.remove(array);
  return CUDA_SUCCESS;
}

CUresult describe_3d(CUDA_ARRAY3D_DESCRIPTOR* out, CUarray handle) {
  const Array* const array = driver().arrays.find(handle);
  if (array == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  *out = array->descriptor;
  return CUDA_SUCCESS;
}

CUresult describe(CUDA_ARRAY_DESCRIPTOR* out, CUarray handle) {
  CUDA_ARRAY3D_DESCRIPTOR full;
  const CUresult result = describe_3d(&full, handle);
  if (result == CUDA_SUCCESS) *out = {full.Width, full.Height, full.Format, full.NumChannels};
  return result;
}

/// The descriptor of the first ABI.
struct Descriptor32 {
  unsigned Width, Height;
  CUarray_format Format;
  unsigned NumChannels;
};
struct Descriptor3d32 {
  unsigned Width, Height, Depth;
  CUarray_format Format;
  unsigned NumChannels, Flags;
};

}  // namespace

void free_arrays_of(Context* context) {
  driver().arrays.remove_if([&](const Array& array) {
    if (array.context == context) give_back(array);
    return array.context == context;
  });
}

FAKE_CUDA_EXPORT(cuArrayCreate, "cuArrayCreate", 2000, create,
                 (CUarray * out, const Descriptor32* d), (out, d))
FAKE_CUDA_EXPORT(cuArrayCreate_v2, "cuArrayCreate", 3020, create,
                 (CUarray * out, const CUDA_ARRAY_DESCRIPTOR* d), (out, d))
FAKE_CUDA_EXPORT(cuArray3DCreate, "cuArray3DCreate", 2000, create,
                 (CUarray * out, const Descriptor3d32* d), (out, d))
FAKE_CUDA_EXPORT(cuArray3DCreate_v2, "cuArray3DCreate", 3020, create,
                 (CUarray * out, const CUDA_ARRAY3D_DESCRIPTOR* d), (out, d))
FAKE_CUDA_EXPORT(cuArrayDestroy, "cuArrayDestroy", 2000, destroy, (CUarray array), (array))
FAKE_CUDA_EXPORT(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, create_mipmapped,
                 (CUmipmappedArray * out, const CUDA_ARRAY3D_DESCRIPTOR* d, unsigned levels),
                 (out, d, levels))
FAKE_CUDA_EXPORT(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, destroy,
                 (CUmipmappedArray array), (array))
FAKE_CUDA_EXPORT(cuArrayGetDescriptor_v2, "cuArrayGetDescriptor", 3020, describe,
                 (CUDA_ARRAY_DESCRIPTOR * out, CUarray array), (out, array))
FAKE_CUDA_EXPORT(cuArray3DGetDescriptor_v2, "cuArray3DGetDescriptor", 3020, describe_3d,
                 (CUDA_ARRAY3D_DESCRIPTOR * out, CUarray array), (out, array))

}  // namespace fake_cuda
