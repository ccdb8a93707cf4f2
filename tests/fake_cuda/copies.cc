// Copies and fills: they succeed and move nothing, since device memory has no content here.
#include "export.h"

namespace fake_cuda {
namespace {

CUresult succeed() {
  return current_context() != nullptr ? CUDA_SUCCESS : no_context();
}

CUresult fill_async(CUdeviceptr at, unsigned char value, size_t count, CUstream stream) {
  if (capture_fill(stream, {at, 0, value, 1, count, 1})) return CUDA_SUCCESS;
  return succeed();
}

}  // namespace

// The legacy variant, and the variant for the per-thread default stream, which has version 7000.
#define COPY(name, suffix, base, version, parameters)                                         \
  FAKE_CUDA_DEFINE(fake_##name, #name, registered_##name, base, version, kLegacyStream, true, \
                   succeed, parameters, ())                                                   \
  FAKE_CUDA_DEFINE(fake_##name##suffix, #name #suffix, registered_##name##suffix, base, 7000, \
                   kPerThreadStream, true, succeed, parameters, ())

COPY(cuMemcpy, _ptds, "cuMemcpy", 4000, (CUdeviceptr, CUdeviceptr, size_t))
COPY(cuMemcpyAsync, _ptsz, "cuMemcpyAsync", 4000, (CUdeviceptr, CUdeviceptr, size_t, CUstream))
COPY(cuMemcpyHtoD_v2, _ptds, "cuMemcpyHtoD", 3020, (CUdeviceptr, const void*, size_t))
COPY(cuMemcpyHtoDAsync_v2, _ptsz, "cuMemcpyHtoDAsync", 3020,
     (CUdeviceptr, const void*, size_t, CUstream))
COPY(cuMemcpyDtoH_v2, _ptds, "cuMemcpyDtoH", 3020, (void*, CUdeviceptr, size_t))
COPY(cuMemcpyDtoHAsync_v2, _ptsz, "cuMemcpyDtoHAsync", 3020, (void*, CUdeviceptr, size_t, CUstream))
COPY(cuMemcpyDtoD_v2, _ptds, "cuMemcpyDtoD", 3020, (CUdeviceptr, CUdeviceptr, size_t))
COPY(cuMemcpyDtoDAsync_v2, _ptsz, "cuMemcpyDtoDAsync", 3020,
     (CUdeviceptr, CUdeviceptr, size_t, CUstream))
COPY(cuMemsetD8_v2, _ptds, "cuMemsetD8", 3020, (CUdeviceptr, unsigned char, size_t))
FAKE_CUDA_EXPORT_BOTH(cuMemsetD8Async, "cuMemsetD8Async", 3020, fill_async,
                      (CUdeviceptr at, unsigned char value, size_t count, CUstream stream),
                      (at, value, count, stream))
COPY(cuMemsetD32_v2, _ptds, "cuMemsetD32", 3020, (CUdeviceptr, unsigned, size_t))
COPY(cuMemsetD32Async, _ptsz, "cuMemsetD32Async", 3020, (CUdeviceptr, unsigned, size_t, CUstream))
COPY(cuMemsetD2D8_v2, _ptds, "cuMemsetD2D8", 3020,
     (CUdeviceptr, size_t, unsigned char, size_t, size_t))
COPY(cuMemsetD2D8Async, _ptsz, "cuMemsetD2D8Async", 3020,
     (CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream))
COPY(cuMemcpy2DUnaligned_v2, _ptds, "cuMemcpy2DUnaligned", 3020, (const void*))
COPY(cuMemcpy2DAsync_v2, _ptsz, "cuMemcpy2DAsync", 3020, (const void*, CUstream))
COPY(cuMemcpy3D_v2, _ptds, "cuMemcpy3D", 3020, (const void*))
COPY(cuMemcpy3DAsync_v2, _ptsz, "cuMemcpy3DAsync", 3020, (const void*, CUstream))

COPY(cuMemcpyPeer, _ptds, "cuMemcpyPeer", 4000,
     (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t))
COPY(cuMemcpyPeerAsync, _ptsz, "cuMemcpyPeerAsync", 4000,
     (CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream))
COPY(cuMemcpy3DPeer, _ptds, "cuMemcpy3DPeer", 4000, (const void*))
COPY(cuMemsetD16_v2, _ptds, "cuMemsetD16", 3020, (CUdeviceptr, unsigned short, size_t))
COPY(cuStreamWriteValue32_v2, _ptsz, "cuStreamWriteValue32", 11070,
     (CUstream, CUdeviceptr, unsigned, unsigned))
COPY(cuStreamWaitValue64_v2, _ptsz, "cuStreamWaitValue64", 11070,
     (CUstream, CUdeviceptr, cuuint64_t, unsigned))
COPY(cuStreamBatchMemOp_v2, _ptsz, "cuStreamBatchMemOp", 11070,
     (CUstream, unsigned, const void*, unsigned))
COPY(cuMemcpyHtoA_v2, _ptds, "cuMemcpyHtoA", 3020, (CUarray, size_t, const void*, size_t))
COPY(cuMemcpyAtoH_v2, _ptds, "cuMemcpyAtoH", 3020, (void*, CUarray, size_t, size_t))
COPY(cuMemcpyDtoA_v2, _ptds, "cuMemcpyDtoA", 3020, (CUarray, size_t, CUdeviceptr, size_t))
COPY(cuMemcpyAtoA_v2, _ptds, "cuMemcpyAtoA", 3020, (CUarray, size_t, CUarray, size_t, size_t))
COPY(cuMemcpyBatchAsync_v2, _ptsz, "cuMemcpyBatchAsync", 13000,
     (CUdeviceptr*, CUdeviceptr*, size_t*, size_t, const void*, size_t*, size_t, CUstream))

#undef COPY

// Texture and surface objects are numbers, which nobody looks at here.
FAKE_CUDA_EXPORT(cuTexObjectCreate, "cuTexObjectCreate", 5000, succeed,
                 (CUtexObject*, const CUDA_RESOURCE_DESC*, const void*, const void*), ())
FAKE_CUDA_EXPORT(cuSurfObjectCreate, "cuSurfObjectCreate", 5000, succeed,
                 (CUsurfObject*, const CUDA_RESOURCE_DESC*), ())

}  // namespace fake_cuda
