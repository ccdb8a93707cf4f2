/* Allocates device memory until the process ends, and never returns to who called it. */
#include <cuda.h>
#include <stddef.h>

__attribute__((visibility("default"))) void churn(CUcontext context) {
  CUdeviceptr at;
  cuCtxSetCurrent(context);
  for (;;) {
    if (cuMemAlloc(&at, 4096) == CUDA_SUCCESS) cuMemFree(at);
  }
}
