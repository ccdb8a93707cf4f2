// Calls that fail must leave no trace: out of memory, failed, double and unknown frees.
// Run with FAKE_CUDA_MEMORY=1GiB FAKE_CUDA_FAIL=cuMemFree:2:719,cuMemAlloc:4:719.
#include "client.h"

int main() {
  use_device(0);
  const CUdeviceptr first = allocate(600 * kMiB);
  CUdeviceptr untouched = 42;
  CHECK(cuMemAlloc(&untouched, 600 * kMiB) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAllocAsync(&untouched, 600 * kMiB, nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(untouched == 42);
  const CUdeviceptr second = allocate(300 * kMiB);
  CHECK(cuMemAlloc(&untouched, 100) == CUDA_ERROR_LAUNCH_FAILED && untouched == 42);
  OK(cuMemFree(second));
  CHECK(cuMemFree(first) == CUDA_ERROR_LAUNCH_FAILED);  // the block lives on
  CHECK(live(0, "linear") == 600 * kMiB);
  CHECK(cuMemFree(second) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(0x1234567) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(first + 512) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAlloc(&untouched, 0) == CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(first));
  allocate(700 * kMiB);
  return finish();
}
