/* A training step that is called again and again, and its ledger: for each call what was live when it began, at most and when
 * it ended. calls between|two_places|in_a_row */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

enum { kCalls = 12, kMib = 1 << 20 };

static size_t live, starts[kCalls], peaks[kCalls], ends[kCalls];
static int calls, failed;

static __attribute__((noinline)) CUdeviceptr take(size_t bytes) {
  CUdeviceptr block = 0;
  failed |= cuMemAlloc(&block, bytes) != CUDA_SUCCESS;
  live += bytes;
  return block;
}

static __attribute__((noinline)) void give(CUdeviceptr block, size_t bytes) {
  failed |= cuMemFree(block) != CUDA_SUCCESS;
  live -= bytes;
}

/* Keeps a MiB, of each third call two; needs more meanwhile, most in the eighth. */
static __attribute__((noinline)) void train_step(void) {
  const int call = calls++;
  const size_t kept = (call % 3 == 2 ? 2 : 1) * (size_t)kMib, temporary = (call == 7 ? 40 : 8) * (size_t)kMib;
  starts[call] = live;
  take(kept);
  const CUdeviceptr block = take(temporary);
  peaks[call] = live;
  give(block, temporary);
  ends[call] = live;
  __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void next_batch(void) {
  give(take(3 * (size_t)kMib), 3 * (size_t)kMib);
}

int main(int argc, char** argv) {
  CUdevice device;
  CUcontext context;
  if (argc < 2 || cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS)
    return 1;
  take(5 * (size_t)kMib);
  while (calls < kCalls) {
    train_step();
    if (strcmp(argv[1], "between") == 0) next_batch();
    if (strcmp(argv[1], "two_places") == 0) train_step();
  }
  for (int i = 0; i < calls; ++i) printf("%zu %zu %zu\n", starts[i], peaks[i], ends[i]);
  return failed;
}
