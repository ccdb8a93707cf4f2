// Device events that are acknowledged: each of four threads allocates and frees, and counts in a
// file what has returned, until it is killed.
// usage: acknowledge FILE
#include <cuda.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <thread>
#include <vector>

int main(int argc, char** argv) {
  const int file = argc == 2 ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0666) : -1;
  if (file < 0 || ftruncate(file, 64) != 0) return 1;
  void* at = mmap(nullptr, 64, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED || cuInit(0) != CUDA_SUCCESS) return 1;
  CUdevice device;
  CUcontext context;
  if (cuDeviceGet(&device, 0) != CUDA_SUCCESS ||
      cuDevicePrimaryCtxRetain(&context, device) != CUDA_SUCCESS)
    return 1;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([at, context, i] {
      const std::atomic_ref<uint64_t> told(static_cast<uint64_t*>(at)[i]);
      cuCtxSetCurrent(context);
      for (;;) {
        CUdeviceptr block;
        if (cuMemAlloc(&block, 4096) != CUDA_SUCCESS) return;
        ++told;
        if (cuMemFree(block) != CUDA_SUCCESS) return;
        ++told;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return 1;
}
