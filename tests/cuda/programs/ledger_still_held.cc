// Releases a primary context that others still hold, as the runtime does at its end, where NVML has
// no list of processes any more. What other processes give back meanwhile is not the context's.
#include <initializer_list>

#include "client.h"

int main() {
  for (const int device : {1, 0}) {
    use_device(device);
    allocate(kMiB);
    OK(cuCtxSynchronize());
  }
  OK(setenv("FAKE_NVML_LIES", "no_list", 1) == 0 ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
  CUcontext held;
  OK(cuDevicePrimaryCtxRetain(&held, 0));
  OK(cuDevicePrimaryCtxRelease(0));
  return finish();
}
