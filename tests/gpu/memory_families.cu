// One of everything that tracks device memory, through the runtime and the driver, with the
// driver's own view (cudaMemGetInfo) around what CUPTI does not record. Prints one line a family:
//   expect <kind> <bytes>      what the calls asked for or the driver answered
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call)                                                               \
  do {                                                                            \
    const auto status = (call);                                                   \
    if (status != 0) {                                                            \
      fprintf(stderr, "%s:%d: %s gives %d\n", __FILE__, __LINE__, #call, status); \
      exit(1);                                                                    \
    }                                                                             \
  } while (0)

static size_t used_bytes() {
  size_t free_bytes, total_bytes;
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  return total_bytes - free_bytes;
}

__global__ void touch(char* at, size_t bytes) {
  const size_t i = blockIdx.x * static_cast<size_t>(blockDim.x) + threadIdx.x;
  if (i < bytes) at[i] = 1;
}

static void linear() {
  void* blocks[3];
  const size_t sizes[3] = {100, 3 << 20, (100 << 20) + 5};
  for (int i = 0; i < 3; ++i) CHECK(cudaMalloc(&blocks[i], sizes[i]));
  size_t pitch;
  void* pitched;
  CHECK(cudaMallocPitch(&pitched, &pitch, 1000, 77));
  printf("expect linear %zu\n", sizes[0] + sizes[1] + sizes[2] + pitch * 77);
  for (void* block : blocks) CHECK(cudaFree(block));
  CHECK(cudaFree(pitched));
}

static void arrays() {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, 512, 256));
  printf("expect array %zu\n", sizeof(float) * 512 * 256);
  CHECK(cudaFreeArray(array));
}

static void host() {
  void* pinned;
  CHECK(cudaMallocHost(&pinned, 64 << 20));
  printf("expect pinned %d\n", 64 << 20);
  void* own = aligned_alloc(4096, 8 << 20);
  CHECK(cudaHostRegister(own, 8 << 20, cudaHostRegisterDefault));
  printf("expect registered %d\n", 8 << 20);
  CHECK(cudaHostUnregister(own));
  free(own);
  CHECK(cudaFreeHost(pinned));
}

static void managed() {
  void* shared;
  CHECK(cudaMallocManaged(&shared, 16 << 20));
  printf("expect managed %d\n", 16 << 20);
  CHECK(cudaFree(shared));
}

static void pools() {
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  void* a;
  void* b;
  CHECK(cudaMallocAsync(&a, 100 << 20, stream));
  CHECK(cudaMallocAsync(&b, 7 << 20, stream));
  printf("expect pool %d\n", 107 << 20);
  CHECK(cudaFreeAsync(a, stream));
  CHECK(cudaFreeAsync(b, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaStreamDestroy(stream));
}

static void virtual_memory() {
  CUmemAllocationProp properties = {};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  const size_t bytes = 64 << 20;
  const size_t before = used_bytes();
  CUmemGenericAllocationHandle handle;
  CHECK(cuMemCreate(&handle, bytes, &properties, 0));
  const size_t created = used_bytes();
  CUdeviceptr at;
  CHECK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
  CHECK(cuMemMap(at, bytes, 0, handle, 0));
  CHECK(cuMemRelease(handle));  // still mapped: nothing is given back
  const size_t released = used_bytes();
  CHECK(cuMemUnmap(at, bytes));
  const size_t unmapped = used_bytes();
  CHECK(cuMemAddressFree(at, bytes));
  printf("expect vmm %zu\n", bytes);
  printf("driver vmm create %zd release %zd unmap %zd\n", static_cast<ssize_t>(created - before),
         static_cast<ssize_t>(released - created), static_cast<ssize_t>(unmapped - released));
}

static void out_of_memory() {
  void* block = nullptr;
  const cudaError_t status = cudaMalloc(&block, size_t{1} << 50);
  printf("out of memory gives %d\n", status);
  cudaGetLastError();
}

int main() {
  CHECK(cudaFree(nullptr));
  linear();
  arrays();
  host();
  managed();
  pools();
  virtual_memory();
  out_of_memory();
  char* touched;
  CHECK(cudaMalloc(&touched, 4096));
  touch<<<16, 256>>>(touched, 4096);
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(touched));
  return 0;
}
