// Frees a block that the driver gave out by a way that no hook sees: forwarded, and counted.
#include "client.h"

int main() {
  use_device(0);
  const CUdeviceptr unseen = fake_cuda_alloc_unseen(5 * kMiB);
  CHECK(unseen != 0);
  OK(cuMemFree(unseen));
  allocate(100);
  return finish();
}
