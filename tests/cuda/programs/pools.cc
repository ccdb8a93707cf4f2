// Stream-ordered memory on two devices: the pool's device counts, not the context's; any thread may
// free.
#include <thread>

#include "client.h"

namespace {

uint64_t attribute(CUmemoryPool pool, CUmemPool_attribute which) {
  cuuint64_t value = 0;
  OK(cuMemPoolGetAttribute(pool, which, &value));
  return value;
}

CUmemoryPool create_pool(int device) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemoryPool pool;
  OK(cuMemPoolCreate(&pool, &properties));
  return pool;
}

}  // namespace

int main() {
  const CUcontext context = use_device(0);
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUmemoryPool pool;
  OK(cuDeviceGetDefaultMemPool(&pool, 0));

  CUdeviceptr block;
  OK(cuMemAllocAsync(&block, 100 * kMiB, stream));
  CHECK(attribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) == 128 * kMiB);
  OK(cuMemFreeAsync(block, stream));
  CHECK(live(0, "pool_used") == 0 && live(0, "pool_reserved") == 128 * kMiB);
  OK(cuStreamSynchronize(stream));
  CHECK(live(0, "pool_reserved") == 0);

  cuuint64_t threshold = 64 * kMiB;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  OK(cuMemAllocAsync(&block, kMiB, nullptr));
  OK(cuMemFree(block));
  OK(cuCtxSynchronize());
  CHECK(live(0, "pool_reserved") == 32 * kMiB);
  cuuint64_t zero = 0;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  CHECK(attribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) == 0);
  OK(cuMemPoolTrimTo(pool, 0));
  CHECK(live(0, "pool_reserved") == 0);

  const CUmemoryPool remote = create_pool(1);
  CUdeviceptr there, kept;
  OK(cuMemAllocFromPoolAsync(&there, 5 * kMiB, remote, stream));
  OK(cuMemAllocFromPoolAsync(&kept, 1000, remote, stream));
  CHECK(live(1, "pool_used") == 5 * kMiB + 1000 && live(0, "pool_used") == 0);
  std::thread([&] {
    OK(cuCtxSetCurrent(context));
    OK(cuMemFreeAsync(there, stream));
  }).join();
  OK(cuMemPoolDestroy(remote));
  CHECK(cuMemPoolDestroy(remote) != CUDA_SUCCESS);
  CHECK(live(1, "pool_used") == 1000);
  return finish();
}
