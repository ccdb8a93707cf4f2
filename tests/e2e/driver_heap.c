/* A benchmark whose blocks are its own and the driver's: a hundred thousand bytes before CUDA begins, as many while it runs, and
   what the driver takes for its context (FAKE_CUDA_HOST_BLOCKS). driver_heap [release] */
#include <cuda.h>
#include <stdlib.h>

enum { kBlocks = 1000, kBytes = 100 };
static void* blocks[2 * kBlocks];

static __attribute__((noinline)) void site_before(void) {
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(kBytes);
}

static __attribute__((noinline)) void site_within(void) {
  for (int i = kBlocks; i < 2 * kBlocks; ++i) blocks[i] = malloc(kBytes);
}

int main(int argc, char** argv) {
  CUdevice device;
  CUcontext context;
  site_before();
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS) return 1;
  site_within();
  (void)argv;
  return argc > 1 && cuDevicePrimaryCtxRelease(device) != CUDA_SUCCESS ? 2 : 0;
}
