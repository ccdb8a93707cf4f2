/* Holds 3 MiB of GPU 0 for so many milliseconds, says so, and ends with 7. usage: use_gpu [MILLISECONDS] */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda.h"

int main(int count, char** arguments) {
  CUdevice device;
  CUcontext context;
  CUdeviceptr address;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS || cuCtxSetCurrent(context) != CUDA_SUCCESS ||
      cuMemAlloc(&address, 3 << 20) != CUDA_SUCCESS)
    return 1;
  if (count > 1) usleep((useconds_t)atoi(arguments[1]) * 1000);
  cuMemFree(address);
  puts("used");
  return 7;
}
