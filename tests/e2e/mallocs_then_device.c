/* Four million mallocs from many stacks, as imports of Python's large packages make them; then ten driver calls in a phase, of which the last
   asks for more than the card has. Ends with code 7. mallocs_then_device MALLOCS_IN_THOUSANDS */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpupeak/gpupeak.h"

static void* live[256];

static __attribute__((noinline)) void deeper(unsigned path, int depth, unsigned i) {
  if (depth > 0) {
    if (path & 1)
      deeper(path >> 1, depth - 1, i);
    else
      deeper(path >> 1, depth - 1, i + 1);
    __asm__ volatile("" ::: "memory"); /* no tail call */
    return;
  }
  free(live[i % 256]);
  live[i % 256] = malloc(i * 7919u % 500 + 1);
}

static __attribute__((noinline)) void import_packages(unsigned mallocs) {
  for (unsigned i = 0; i < mallocs; ++i) deeper(i * 2654435761u >> 20, 12, i);
}

static __attribute__((noinline)) int build_model(void) {
  CUdeviceptr blocks[8];
  for (int i = 0; i < 8; ++i) {
    if (cuMemAlloc(&blocks[i], (size_t)(i + 1) << 20) != CUDA_SUCCESS) return 0;
  }
  return cuMemFree(blocks[0]) == CUDA_SUCCESS;
}

static __attribute__((noinline)) CUresult ask_for_too_much(void) {
  CUdeviceptr block;
  return cuMemAlloc(&block, (size_t)200 << 30);
}

int main(int argc, char** argv) {
  import_packages(argc > 1 ? (unsigned)atoi(argv[1]) * 1000u : 4000000u);
  CUdevice device;
  CUcontext context;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS ||
      cuCtxSetCurrent(context) != CUDA_SUCCESS)
    return 1;
  gpupeak_phase_push("training");
  const int built = build_model();
  const CUresult result = ask_for_too_much();
  gpupeak_phase_pop();
  return built && result != CUDA_SUCCESS ? 7 : 1;
}
