// What a driver call costs: medians of batches, in nanoseconds, one line each: "<name> <ns>".
// Run with and without the preload; tests/gpu/run.sh alternates the two.
#include <cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                     \
  do {                                                                  \
    if ((call) != CUDA_SUCCESS) {                                       \
      fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

static const char* const kNothing = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry nothing() { ret; }
)";

/// `settle` is not timed: the device's queue must not fill, or its speed is what is measured.
template <typename Call, typename Settle>
static void report(const char* name, int batches, int calls, Call call, Settle settle) {
  std::vector<double> ns;
  for (int b = 0; b < batches; ++b) {
    settle();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
    ns.push_back(took.count() / calls);
  }
  std::nth_element(ns.begin(), ns.begin() + ns.size() / 2, ns.end());
  printf("%s %.1f\n", name, ns[ns.size() / 2]);
}

template <typename Call>
static void report(const char* name, int batches, int calls, Call call) {
  report(name, batches, calls, call, [] {});
}

int main() {
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUstream stream;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUmemoryPool pool;
  CHECK(cuDeviceGetDefaultMemPool(&pool, device));
  cuuint64_t keep = UINT64_MAX;
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  report("cuMemAlloc+cuMemFree", 101, 50, [] {
    CUdeviceptr at;
    CHECK(cuMemAlloc(&at, 4 << 20));
    CHECK(cuMemFree(at));
  });
  // What a hook asks the driver itself.
  report("cuCtxGetDevice", 101, 2000, [] {
    CUdevice current;
    CHECK(cuCtxGetDevice(&current));
  });
  report("cuMemPoolGetAttribute", 101, 2000, [&] {
    cuuint64_t bytes;
    CHECK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &bytes));
  });
  report("cuMemAllocAsync+cuMemFreeAsync", 101, 2000, [&] {
    CUdeviceptr at;
    CHECK(cuMemAllocAsync(&at, 1 << 20, stream));
    CHECK(cuMemFreeAsync(at, stream));
  });
  CHECK(cuStreamSynchronize(stream));
  CUmodule module;
  CUfunction function;
  CHECK(cuModuleLoadData(&module, kNothing));
  CHECK(cuModuleGetFunction(&function, module, "nothing"));
  report(
      "cuLaunchKernel", 1001, 100,
      [&] { CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr)); },
      [&] { CHECK(cuStreamSynchronize(stream)); });
  CHECK(cuStreamSynchronize(stream));
  return 0;
}
