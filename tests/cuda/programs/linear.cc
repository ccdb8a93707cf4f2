// Linear and pitched memory, small and large, on two devices; some of it never freed.
#include "client.h"

int main() {
  use_device(1);
  const CUdeviceptr other = allocate(3 * kMiB);
  use_device(0);
  const CUdeviceptr small = allocate(100);
  const CUdeviceptr large = allocate(100 * kMiB + 1);
  CUdeviceptr pitched;
  size_t pitch;
  OK(cuMemAllocPitch(&pitched, &pitch, 1000, 64, 4));
  CHECK(pitch >= 1000);
  CHECK(live(0, "linear") == 100 + 100 * kMiB + 1 + pitch * 64);
  OK(cuMemFree(large));
  OK(cuMemFree(0));
  const CUdeviceptr kept = allocate(5000);
  size_t free_bytes, total;
  OK(cuMemGetInfo(&free_bytes, &total));
  CHECK(total - free_bytes == 2 * kMiB);  // all that is left shares one page
  OK(cuMemFree(small));
  OK(cuMemFree(pitched));
  OK(cuMemFree(other));
  CHECK(live(0, "linear") == 5000 && live(1, "linear") == 0 && kept != 0);
  return finish();
}
