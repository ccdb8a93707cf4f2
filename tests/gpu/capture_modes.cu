// What a program may do while a stream is being captured, in each of the three modes, from the
// capturing thread and from another: prints each call's result. The output must be the same with
// and without gpupeak.
#include <cuda.h>
#include <cuda_runtime.h>

#include <cstdio>
#include <thread>

__global__ void first(int* at) {
  if (at) *at = 1;
}
__global__ void second(int* at) {
  volatile char own[4096];
  for (int i = 0; i < 4096; ++i) own[i] = i;
  if (at) *at = own[threadIdx.x];
}
template <int kNumber>
__global__ void fresh(int* at) {
  if (at) *at = kNumber;
}

static void say(const char* where, const char* what, int result) {
  printf("%s %s %d\n", where, what, result);
  cudaGetLastError();
}

template <int kNumber, typename Call>
static void during_capture(cudaStreamCaptureMode mode, const char* name, Call call) {
  cudaStream_t stream, other;
  cudaStreamCreate(&stream);
  cudaStreamCreate(&other);
  char where[64];
  for (const bool same_thread : {true, false}) {
    snprintf(where, sizeof where, "mode %d %s %s", mode, name, same_thread ? "own" : "other");
    cudaGraph_t graph = nullptr;
    say(where, "begin", cudaStreamBeginCapture(stream, mode));
    fresh<kNumber><<<1, 1, 0, stream>>>(nullptr);  // a function's first launch, captured
    say(where, "first_launch", cudaGetLastError());
    if (same_thread) {
      call(where, stream, other);
    } else {
      std::thread([&] { call(where, other, other); }).join();
    }
    say(where, "end", cudaStreamEndCapture(stream, &graph));
    cudaGraphExec_t executable;
    if (graph != nullptr) say(where, "instantiate", cudaGraphInstantiate(&executable, graph, 0));
  }
}

template <int kBase>
static void all(cudaStreamCaptureMode mode) {
  during_capture<kBase + 0>(mode, "launch",
                            [](const char* where, cudaStream_t stream, cudaStream_t) {
                              first<<<1, 1, 0, stream>>>(nullptr);
                              say(where, "launch", cudaGetLastError());
                              second<<<1, 1, 0, stream>>>(nullptr);
                              say(where, "launch_local", cudaGetLastError());
                            });
  during_capture<kBase + 1>(mode, "malloc_async",
                            [](const char* where, cudaStream_t stream, cudaStream_t) {
                              void* block = nullptr;
                              say(where, "malloc", cudaMallocAsync(&block, 1 << 20, stream));
                              if (block != nullptr)
                                say(where, "free", cudaFreeAsync(block, stream));
                            });
  during_capture<kBase + 2>(mode, "malloc", [](const char* where, cudaStream_t, cudaStream_t) {
    void* block = nullptr;
    say(where, "malloc", cudaMalloc(&block, 1 << 20));
  });
  during_capture<kBase + 3>(mode, "malloc_async_other",
                            [](const char* where, cudaStream_t, cudaStream_t other) {
                              void* block = nullptr;
                              say(where, "malloc", cudaMallocAsync(&block, 1 << 20, other));
                            });
  during_capture<kBase + 4>(mode, "create", [](const char* where, cudaStream_t, cudaStream_t) {
    cudaStream_t made;
    say(where, "stream", cudaStreamCreate(&made));
    cudaEvent_t event;
    say(where, "event", cudaEventCreate(&event));
  });
  during_capture<kBase + 5>(mode, "vmm", [](const char* where, cudaStream_t, cudaStream_t) {
    CUmemAllocationProp properties = {};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    CUmemGenericAllocationHandle handle;
    say(where, "create", cuMemCreate(&handle, 2 << 20, &properties, 0));
  });
  during_capture<kBase + 6>(mode, "limit", [](const char* where, cudaStream_t, cudaStream_t) {
    say(where, "stack", cudaDeviceSetLimit(cudaLimitStackSize, 2048));
  });
  during_capture<kBase + 7>(mode, "synchronise",
                            [](const char* where, cudaStream_t stream, cudaStream_t) {
                              say(where, "stream", cudaStreamSynchronize(stream));
                            });
}

int main() {
  cudaFree(nullptr);
  void* warm;
  cudaMallocAsync(&warm, 1 << 20, nullptr);
  cudaDeviceSynchronize();
  all<0>(cudaStreamCaptureModeGlobal);
  all<100>(cudaStreamCaptureModeThreadLocal);
  all<200>(cudaStreamCaptureModeRelaxed);
  say("after", "synchronise", cudaDeviceSynchronize());
  return 0;
}
