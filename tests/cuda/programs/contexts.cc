// What dies with a context, and what does not: virtual and pool memory.
#include "client.h"

int main() {
  OK(cuInit(0));
  CUcontext own;
  OK(create_context(&own, 0, 0));
  allocate(3 * kMiB);
  allocate(7000);
  void* pinned;
  OK(cuMemAllocHost(&pinned, 12345));
  CUdeviceptr managed, pooled;
  OK(cuMemAllocManaged(&managed, kMiB, CU_MEM_ATTACH_GLOBAL));
  OK(cuMemAllocAsync(&pooled, 4 * kMiB, nullptr));
  CUarray array;
  const CUDA_ARRAY_DESCRIPTOR shape{10, 10, CU_AD_FORMAT_FLOAT, 1};
  OK(cuArrayCreate(&array, &shape));
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle;
  OK(cuMemCreate(&handle, 2 * kMiB, &properties, 0));
  OK(cuCtxDestroy(own));
  CHECK(cuCtxDestroy(own) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(live(0, "linear") == 0 && live(0, "array") == 0 && live(-1, "pinned") == 0 &&
        live(0, "managed") == 0);
  CHECK(live(0, "pool_used") == 4 * kMiB && live(0, "vmm") == 2 * kMiB);

  // The primary context ends with its last reference, or by a reset.
  use_device(1);
  use_device(1);
  allocate(10 * kMiB);
  OK(cuDevicePrimaryCtxRelease(1));
  CHECK(live(1, "linear") == 10 * kMiB);
  OK(cuDevicePrimaryCtxRelease(1));
  CHECK(live(1, "linear") == 0);
  use_device(1);
  allocate(20 * kMiB);
  OK(cuDevicePrimaryCtxReset(1));
  CHECK(live(1, "linear") == 0);
  CUdeviceptr nothing;
  CHECK(cuMemAlloc(&nothing, 100) != CUDA_SUCCESS);
  use_device(1);
  allocate(1 * kMiB);
  return finish();
}
