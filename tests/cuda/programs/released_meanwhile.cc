// Memory is mapped, by cuMemMap and into a tile, and before that call returns another thread
// releases its handle: the mapping keeps it. Where the mapping fails, the release frees it.
#include <cstring>
#include <thread>

#include "client.h"

extern "C" void fake_cuda_on_return(void (*)(const char* base_name));

namespace {

constexpr uint64_t kPage = 2 * kMiB;
CUcontext g_context;
CUmemGenericAllocationHandle g_handle;
const char* g_mapping_call;

void release_it(const char* call) {
  if (strcmp(call, g_mapping_call) != 0) return;
  fake_cuda_on_return(nullptr);
  std::thread([] {
    OK(cuCtxSetCurrent(g_context));
    OK(cuMemRelease(g_handle));
  }).join();
}

void create_for(const char* mapping_call) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  OK(cuMemCreate(&g_handle, kPage, &properties, 0));
  g_mapping_call = mapping_call;
  fake_cuda_on_return(release_it);
}

CUresult map_tile(CUarray array, unsigned at) {
  CUarrayMapInfo tile{};
  tile.resourceType = CU_RESOURCE_TYPE_ARRAY;
  tile.resource.array = array;
  tile.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  tile.subresource.sparseLevel.offsetX = at;
  tile.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  tile.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  tile.memHandle.memHandle = g_handle;
  return cuMemMapArrayAsync(&tile, 1, nullptr);
}

}  // namespace

int main() {
  g_context = use_device(0);
  CUdeviceptr range = 0;
  OK(cuMemAddressReserve(&range, 2 * kPage, 0, 0, 0));
  create_for("cuMemMap");
  OK(cuMemMap(range, kPage, 0, g_handle, 0));
  CHECK(live(0, "vmm") == kPage);

  create_for("cuMemMap");
  CHECK(cuMemMap(range, kPage, 0, g_handle, 0) != CUDA_SUCCESS);  // something lies there
  CHECK(live(0, "vmm") == kPage);

  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = shape.Height = 1024;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array;
  OK(cuArray3DCreate(&array, &shape));
  create_for("cuMemMapArrayAsync");
  OK(map_tile(array, 0));
  CHECK(live(0, "vmm") == 2 * kPage);
  return finish();
}
