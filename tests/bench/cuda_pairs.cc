// Driver calls whose instructions tests/bench/driver_calls.py counts, below a stack of 8 frames.
// CALL is async (a pair of a pool's memory, in the order of a stream), linear (another pair) or
// launch.
#include <string_view>

#include "../cuda/programs/client.h"

namespace {

volatile int g_sink;  // keeps the recursion from becoming a loop

void async_pair(CUstream stream) {
  CUdeviceptr at;
  OK(cuMemAllocAsync(&at, 1 << 20, stream));
  OK(cuMemFreeAsync(at, stream));
}

void linear_pair() {
  CUdeviceptr at;
  OK(cuMemAlloc(&at, 4 << 20));
  OK(cuMemFree(at));
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
  use_device(0);
  CUstream stream;
  CUmemoryPool pool;
  CUmodule module;
  CUfunction function;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t keep = UINT64_MAX;
  OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
  OK(cuModuleLoadData(&module, ""));
  OK(cuModuleGetFunction(&function, module, "nothing"));
  if (what == "async") at_depth(kDepth, calls, [&] { async_pair(stream); });
  if (what == "linear") at_depth(kDepth, calls, linear_pair);
  if (what == "launch") {
    at_depth(kDepth, calls, [&] {
      OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr));
    });
  }
  return 0;
}
