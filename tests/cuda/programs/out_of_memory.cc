// Takes memory until there is none and gives none back, so that no call reads what is in use but
// the one that fails; then aborts, as a program does that did not expect it.
#include <cstdlib>

#include "client.h"

int main() {
  use_device(0);
  CUdeviceptr block;
  while (cuMemAlloc(&block, 10 * kMiB + 512) == CUDA_SUCCESS) continue;
  if (cuMemAllocAsync(&block, 10 * kMiB, nullptr) != CUDA_ERROR_OUT_OF_MEMORY) return 1;
  abort();
}
