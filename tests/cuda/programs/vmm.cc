// Virtual memory: released while mapped, one unmap over two mappings, retained, exported and
// imported, on another device than the context's, and on the host.
#include <unistd.h>

#include "client.h"

namespace {

CUmemGenericAllocationHandle create(uint64_t bytes, CUmemLocationType type, int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {type, device};
  properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUmemGenericAllocationHandle handle;
  OK(cuMemCreate(&handle, bytes, &properties, 0));
  return handle;
}

}  // namespace

int main() {
  use_device(0);
  constexpr auto kDevice = CU_MEM_LOCATION_TYPE_DEVICE;
  constexpr auto kHost =
      static_cast<CUmemLocationType>(2);  // CU_MEM_LOCATION_TYPE_HOST, since CUDA 12.2
  CUdeviceptr range;
  OK(cuMemAddressReserve(&range, 64 * kMiB, 0, 0, 0));
  CHECK(live(0, "device_total") == 0);

  const auto first = create(4 * kMiB, kDevice, 0);
  const auto second = create(6 * kMiB, kDevice, 1);
  OK(cuMemMap(range, 4 * kMiB, 0, first, 0));
  OK(cuMemMap(range + 4 * kMiB, 6 * kMiB, 0, second, 0));
  CUmemAccessDesc access{{kDevice, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemSetAccess(range, 10 * kMiB, &access, 1));
  OK(cuMemRelease(first));
  OK(cuMemRelease(second));
  CHECK(cuMemRelease(second) != CUDA_SUCCESS);
  CHECK(live(0, "vmm") == 4 * kMiB && live(1, "vmm") == 6 * kMiB);
  CHECK(cuMemUnmap(range, 2 * kMiB) != CUDA_SUCCESS);
  OK(cuMemUnmap(range, 10 * kMiB));
  CHECK(live(0, "vmm") == 0 && live(1, "vmm") == 0);

  const auto third = create(8 * kMiB, kDevice, 0);
  OK(cuMemMap(range, 8 * kMiB, 0, third, 0));
  CUmemGenericAllocationHandle again;
  OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(range + kMiB)));
  OK(cuMemUnmap(range, 8 * kMiB));
  OK(cuMemRelease(third));
  CHECK(live(0, "vmm") == 8 * kMiB);
  int file = -1;
  OK(cuMemExportToShareableHandle(&file, again, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUmemGenericAllocationHandle imported;
  OK(cuMemImportFromShareableHandle(&imported, reinterpret_cast<void*>(static_cast<intptr_t>(file)),
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  close(file);
  CHECK(live(0, "vmm") == 8 * kMiB);
  OK(cuMemRelease(imported));
  OK(cuMemRelease(again));
  CHECK(live(0, "vmm") == 0);

  const auto on_host = create(2 * kMiB, kHost, 0);
  CHECK(live(-1, "host_vmm") == 2 * kMiB);
  OK(cuMemRelease(on_host));
  create(2 * kMiB, kDevice, 0);  // never released
  OK(cuMemAddressFree(range, 64 * kMiB));
  return finish();
}
