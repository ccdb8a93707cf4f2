// Pinned, registered and managed memory.
#include <vector>

#include "client.h"

int main() {
  use_device(0);
  void *first, *second;
  OK(cuMemAllocHost(&first, 3 * kMiB));
  OK(cuMemHostAlloc(&second, 777, CU_MEMHOSTALLOC_PORTABLE));
  static_cast<char*>(first)[3 * kMiB - 1] = 1;
  std::vector<char> own(1 << 20);
  OK(cuMemHostRegister(own.data(), own.size(), 0));
  CHECK(cuMemHostRegister(own.data(), 10, 0) == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  CHECK(live(-1, "pinned") == 3 * kMiB + 777 && live(-1, "registered") == own.size());
  CUdeviceptr managed, kept;
  OK(cuMemAllocManaged(&managed, 9 * kMiB, CU_MEM_ATTACH_GLOBAL));
  OK(cuMemAllocManaged(&kept, kMiB, CU_MEM_ATTACH_GLOBAL));
  CHECK(live(0, "managed") == 10 * kMiB && live(0, "device_total") == 0);
  OK(cuMemFree(managed));
  OK(cuMemHostUnregister(own.data()));
  CHECK(cuMemHostUnregister(own.data()) != CUDA_SUCCESS);
  OK(cuMemFreeHost(first));
  CHECK(cuMemFreeHost(first) != CUDA_SUCCESS);
  return finish();
}
