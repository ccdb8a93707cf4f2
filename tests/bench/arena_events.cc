// What PyTorch's allocator does when it hands out a block and takes it back, as a library that
// tests/bench/python_lines.py loads: the calls to c10 alone, so that what is timed is the hook.
#include <cuda.h>

#include <cstddef>
#include <cstdint>

#include "../arenas/fake_c10.h"

extern "C" void arena_use() {
  CUcontext context;
  cuInit(0);
  cuDevicePrimaryCtxRetain(&context, 0);
  cuCtxSetCurrent(context);
}

extern "C" void arena_pair(uintptr_t at) {
  constexpr c10::Device kDevice{1, 0};
  void* const block = reinterpret_cast<void*>(at);
  c10::reportMemoryUsageToProfiler(block, 512, 512, 1 << 20, kDevice);
  c10::reportMemoryUsageToProfiler(block, -512, 0, 1 << 20, kDevice);
}

extern "C" void driver_pair() {
  CUdeviceptr at;
  if (cuMemAlloc(&at, 4096) == CUDA_SUCCESS) cuMemFree(at);
}
