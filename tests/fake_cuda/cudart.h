// The functions of the stand-in for libcudart. Handles are the driver's, as in the real one.
#pragma once

#include <cuda.h>

#include <cstddef>

extern "C" {
int cudaSetDevice(int device);
int cudaMalloc(void** out, size_t bytes);
int cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height);
int cudaFree(void* at);
int cudaMallocAsync(void** out, size_t bytes, CUstream stream);
int cudaMallocAsync_ptsz(void** out, size_t bytes, CUstream stream);
int cudaFreeAsync(void* at, CUstream stream);
int cudaFreeAsync_ptsz(void* at, CUstream stream);
int cudaMallocHost(void** out, size_t bytes);
int cudaFreeHost(void* at);
int cudaHostRegister(void* at, size_t bytes, unsigned flags);
int cudaHostUnregister(void* at);
int cudaMallocManaged(void** out, size_t bytes, unsigned flags);
// Makes a plain array of floats. The real cudaMalloc3DArray takes more arguments.
int cudaMalloc3DArrayOfFloats(CUarray* out, size_t width, size_t height, size_t depth);
int cudaFreeArray(CUarray array);
int cudaMemGetInfo(size_t* free_bytes, size_t* total);
int cudaStreamCreate(CUstream* out);
int cudaStreamDestroy(CUstream stream);
int cudaStreamSynchronize(CUstream stream);
int cudaDeviceSynchronize();
int cudaDeviceReset();
}
