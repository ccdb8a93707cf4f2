// A sparse array is destroyed, and before that call returns another thread is given its handle for
// a new one: what is mapped into that must not be taken for gone with the old one. The tiles alone
// keep their memory, and what a tile's unmapping frees may come again in the same way.
#include <cstring>
#include <thread>

#include "client.h"

extern "C" void fake_cuda_on_return(void (*)(const char* base_name));

namespace {

constexpr uint64_t kPage = 2 * kMiB;
CUcontext g_context;
CUarray g_old, g_new;

CUarray create() {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = shape.Height = 1024;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 1;
  shape.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array;
  OK(cuArray3DCreate(&array, &shape));
  return array;
}

void map_tile(CUarray array) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle;
  OK(cuMemCreate(&handle, kPage, &properties, 0));
  CUarrayMapInfo tile{};
  tile.resourceType = CU_RESOURCE_TYPE_ARRAY;
  tile.resource.array = array;
  tile.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  tile.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  tile.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  tile.memHandle.memHandle = handle;
  OK(cuMemMapArrayAsync(&tile, 1, nullptr));
  OK(cuMemRelease(handle));
}

void make_another(const char* call) {
  if (strcmp(call, "cuArrayDestroy") != 0) return;
  fake_cuda_on_return(nullptr);
  std::thread([] {
    OK(cuCtxSetCurrent(g_context));
    for (int tries = 0; g_new != g_old && tries < 1000; ++tries) g_new = create();
    map_tile(g_new);
  }).join();
}

}  // namespace

int main() {
  g_context = use_device(0);
  g_old = create();
  map_tile(g_old);
  CHECK(live(0, "vmm") == kPage);
  fake_cuda_on_return(make_another);
  OK(cuArrayDestroy(g_old));
  CHECK(g_new == g_old);
  CHECK(live(0, "vmm") == kPage);
  return finish();
}
