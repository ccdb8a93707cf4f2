// What takes device memory without anybody asking for it, and the families that CUPTI records
// nothing of, each with what cudaMemGetInfo moved by around it: "driver <family> <step> <bytes>".
// Last line: what is in use then. With "hold SECONDS": another process's 200 MiB, for as long.
#include <cuda.h>
#include <cuda_runtime.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#define CHECK(call)                                                               \
  do {                                                                            \
    const auto status = (call);                                                   \
    if (status != 0) {                                                            \
      fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, status); \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

__device__ char data[32 << 20];

__global__ void plain(int* at) {
  if (at) *at = data[threadIdx.x];
}
template <int kBytes>
__global__ void local(int* at) {
  volatile char own[kBytes];
  for (int i = 0; i < kBytes; ++i) own[i] = i;
  if (at) *at = own[threadIdx.x];
}
__global__ void touch(char* at, size_t bytes) {
  for (size_t i = threadIdx.x; i < bytes; i += 4096) at[i] = 1;
}

static size_t used_bytes() {
  size_t free_bytes, total_bytes;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes - free_bytes;
}
static void step(const char* family, const char* what) {
  static size_t last = 0;
  const size_t now = used_bytes();
  printf("driver %s %s %zd\n", family, what, static_cast<ssize_t>(now - last));
  last = now;
}

static void code() {
  plain<<<1, 1>>>(nullptr);
  step("code", "first_launch");
  local<2048><<<1, 1>>>(nullptr);
  step("local_memory", "2KiB");
  local<8192><<<1, 1>>>(nullptr);
  step("local_memory", "8KiB");
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
  plain<<<1, 1>>>(nullptr);
  CHECK(cudaDeviceSynchronize());
  step("local_memory", "stack_limit");
}

static void streams_and_events() {
  for (int i = 0; i < 40; ++i) {
    cudaStream_t stream;
    CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  }
  step("streams", "40");
  for (int i = 0; i < 1000; ++i) {
    cudaEvent_t event;
    CHECK(cudaEventCreate(&event));
  }
  step("events", "1000");
}

static void sparse_array() {
  CUdevice device;
  CHECK(cuCtxGetDevice(&device));
  int supported = 0;
  CHECK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, device));
  if (!supported) return;
  CUDA_ARRAY3D_DESCRIPTOR descriptor = {};
  descriptor.Width = descriptor.Height = 1024;
  descriptor.Format = CU_AD_FORMAT_FLOAT;
  descriptor.NumChannels = 1;
  descriptor.Flags = CUDA_ARRAY3D_SPARSE;
  CUarray array;
  CHECK(cuArray3DCreate(&array, &descriptor));
  step("sparse", "create");
  CUDA_ARRAY_SPARSE_PROPERTIES properties;
  CHECK(cuArrayGetSparseProperties(&properties, array));
  CUmemAllocationProp memory = {};
  memory.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  memory.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  memory.location.id = device;
  memory.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, 2 << 20, &memory, 0));
  step("sparse", "memory");
  CUarrayMapInfo tile = {};
  tile.resourceType = CU_RESOURCE_TYPE_ARRAY;
  tile.resource.array = array;
  tile.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
  tile.subresource.sparseLevel.extentWidth = properties.tileExtent.width;
  tile.subresource.sparseLevel.extentHeight = properties.tileExtent.height;
  tile.subresource.sparseLevel.extentDepth = properties.tileExtent.depth;
  tile.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
  tile.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
  tile.memHandle.memHandle = handle;
  tile.deviceBitMask = 1u << device;
  CHECK(cuMemMapArrayAsync(&tile, 1, nullptr));
  CHECK(cuCtxSynchronize());
  step("sparse", "map");
  CHECK(cuMemRelease(handle));
  step("sparse", "release_while_mapped");
  tile.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
  tile.memHandle.memHandle = 0;
  CHECK(cuMemMapArrayAsync(&tile, 1, nullptr));
  CHECK(cuCtxSynchronize());
  step("sparse", "unmap");
  CHECK(cuArrayDestroy(array));
  step("sparse", "destroy");
}

static void graph_memory() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  char* block;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&block, 200 << 20, stream));
  touch<<<1, 1024, 0, stream>>>(block, 200 << 20);
  CHECK(cudaFreeAsync(block, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  step("graph", "capture");
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  step("graph", "instantiate");
  CHECK(cudaGraphLaunch(executable, stream));
  CHECK(cudaStreamSynchronize(stream));
  step("graph", "launch");
  CHECK(cudaGraphExecDestroy(executable));
  step("graph", "destroy");
  CHECK(cudaDeviceGraphMemTrim(0));
  step("graph", "trim");
}

static void green_context() {
#if CUDA_VERSION >= 12040
  CUdevice device;
  CHECK(cuCtxGetDevice(&device));
  CUdevResource all, part;
  CHECK(cuDeviceGetDevResource(device, &all, CU_DEV_RESOURCE_TYPE_SM));
  unsigned groups = 1;
  CHECK(cuDevSmResourceSplitByCount(&part, &groups, &all, nullptr, 0, 16));
  CUdevResourceDesc description;
  CHECK(cuDevResourceGenerateDesc(&description, &part, 1));
  CUgreenCtx green;
  CHECK(cuGreenCtxCreate(&green, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
  step("green", "create");
  CUcontext context;
  CHECK(cuCtxFromGreenCtx(&context, green));
  CHECK(cuCtxPushCurrent(context));
  CUdeviceptr block;
  CHECK(cuMemAlloc(&block, 64 << 20));
  CHECK(cuCtxPopCurrent(&context));
  step("green", "alloc");
  CHECK(cuGreenCtxDestroy(green));
  step("green", "destroy");
  CHECK(cuMemFree(block));
  step("green", "free");
#endif
}

static void managed() {
  char* block;
  CHECK(cudaMallocManaged(&block, 16 << 20));
  step("managed", "alloc");
  touch<<<1, 1024>>>(block, 16 << 20);
  CHECK(cudaDeviceSynchronize());
  step("managed", "touch");
}

static void small_and_large() {
  void* blocks[6];
  const size_t sizes[6] = {1000, 1 << 20, (1 << 20) + 1, 300 << 10, 3 << 20, 513};
  for (int i = 0; i < 6; ++i) CHECK(cudaMalloc(&blocks[i], sizes[i]));
  step("linear", "alloc");
  for (int i = 0; i < 6; i += 2) CHECK(cudaFree(blocks[i]));
  step("linear", "free_every_other");
  cudaArray_t array;
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float4>();
  CHECK(cudaMallocArray(&array, &format, 100, 50));
  cudaMipmappedArray_t mipmapped;
  CHECK(cudaMallocMipmappedArray(&mipmapped, &format, make_cudaExtent(512, 512, 0), 5));
  step("arrays", "create");
}

int main(int count, char** arguments) {
  CHECK(cudaFree(nullptr));
  if (count > 2 && strcmp(arguments[1], "hold") == 0) {
    void* block;
    CHECK(cudaMalloc(&block, 200 << 20));
    puts("holding");
    fflush(stdout);
    sleep(static_cast<unsigned>(atoi(arguments[2])));
    return 0;
  }
  step("context", "create");
  small_and_large();
  code();
  streams_and_events();
  sparse_array();
  graph_memory();
  green_context();
  managed();
  printf("in_use %zu\n", used_bytes());
  return 0;
}
