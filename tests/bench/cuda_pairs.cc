// Driver calls whose instructions tests/bench/driver_calls.py counts, below a stack of 8 frames.
// CALL is async (a pair of a pool's memory, in the order of a stream), linear (another pair) or
// launch.
#include <cuda.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

#define CHECK(call)                                                     \
  do {                                                                  \
    if ((call) != CUDA_SUCCESS) {                                       \
      fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #call); \
      exit(1);                                                          \
    }                                                                   \
  } while (0)

volatile int g_sink;  // keeps the recursion from becoming a loop

void async_pair(CUstream stream) {
  CUdeviceptr at;
  CHECK(cuMemAllocAsync(&at, 1 << 20, stream));
  CHECK(cuMemFreeAsync(at, stream));
}

void linear_pair() {
  CUdeviceptr at;
  CHECK(cuMemAlloc(&at, 4 << 20));
  CHECK(cuMemFree(at));
}

template <typename Call>
__attribute__((noinline)) void at_depth(int depth, long calls, const Call& call) {
  if (depth > 1)
    at_depth(depth - 1, calls, call);
  else
    for (long i = 0; i < calls; ++i) call();
  g_sink = depth;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s async|linear|launch CALLS\n", argv[0]);
    return 2;
  }
  const std::string_view what = argv[1];
  const long calls = atol(argv[2]);
  constexpr int kDepth = 8;
  CUcontext context;
  CUstream stream;
  CUmemoryPool pool;
  CUmodule module;
  CUfunction function;
  CHECK(cuInit(0));
  CHECK(cuDevicePrimaryCtxRetain(&context, 0));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t keep = UINT64_MAX;
  CHECK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  CHECK(cuModuleLoadData(&module, ""));
  CHECK(cuModuleGetFunction(&function, module, "nothing"));
  if (what == "async") at_depth(kDepth, calls, [&] { async_pair(stream); });
  if (what == "linear") at_depth(kDepth, calls, linear_pair);
  if (what == "launch") {
    at_depth(kDepth, calls, [&] {
      CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    });
  }
  return 0;
}
