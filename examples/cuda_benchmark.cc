// A small benchmark-like CUDA program: loads "weights", warms up with a large workspace, runs some
// steady iterations. It knows its own device peak and prints it, so that a report about it can be
// checked:
//
//   gpupeak run ./cuda_benchmark
//
// It needs a CUDA driver at run time and nothing of CUDA to be built or linked but headers; without
// a driver it says so and exits with 77. It says by gpupeak.h which phase it is in, which costs
// nothing when it runs without gpupeak.
#include <cuda.h>
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "gpupeak/gpupeak.h"

namespace {

constexpr int kSkipped = 77;
constexpr uint64_t kMiB = 1 << 20;
constexpr int kLayers = 12, kSteadyRuns = 50;
constexpr uint64_t kHidden = 1024, kVocabulary = 32000, kBytesPerWeight = 2;
constexpr uint64_t kWorkspaceBytes = 384 * kMiB, kActivationBytes = 24 * kMiB,
                   kStagingBytes = 8 * kMiB;

/// The driver's functions that are used here, by their names in the library.
struct Driver {
  CUresult (*init)(unsigned);
  CUresult (*device_get)(CUdevice*, int);
  CUresult (*device_name)(char*, int, CUdevice);
  CUresult (*context_retain)(CUcontext*, CUdevice);
  CUresult (*context_release)(CUdevice);
  CUresult (*context_set)(CUcontext);
  CUresult (*mem_alloc)(CUdeviceptr*, size_t);
  CUresult (*mem_free)(CUdeviceptr);
  CUresult (*mem_alloc_async)(CUdeviceptr*, size_t, CUstream);
  CUresult (*mem_free_async)(CUdeviceptr, CUstream);
  CUresult (*host_alloc)(void**, size_t, unsigned);
  CUresult (*host_free)(void*);
  CUresult (*copy_to_device)(CUdeviceptr, const void*, size_t, CUstream);
  CUresult (*fill)(CUdeviceptr, unsigned char, size_t, CUstream);
  CUresult (*stream_create)(CUstream*, unsigned);
  CUresult (*stream_synchronize)(CUstream);
  CUresult (*stream_destroy)(CUstream);
};
Driver g_cuda;

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) fprintf(stderr, "cuda_benchmark: libcuda.so.1 has no %s\n", name);
  return function != nullptr;
}

bool load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    fprintf(stderr, "cuda_benchmark: no CUDA driver here (%s); skipped\n", dlerror());
    return false;
  }
  return find(library, "cuInit", g_cuda.init) && find(library, "cuDeviceGet", g_cuda.device_get) &&
         find(library, "cuDeviceGetName", g_cuda.device_name) &&
         find(library, "cuDevicePrimaryCtxRetain", g_cuda.context_retain) &&
         find(library, "cuDevicePrimaryCtxRelease_v2", g_cuda.context_release) &&
         find(library, "cuCtxSetCurrent", g_cuda.context_set) &&
         find(library, "cuMemAlloc_v2", g_cuda.mem_alloc) &&
         find(library, "cuMemFree_v2", g_cuda.mem_free) &&
         find(library, "cuMemAllocAsync", g_cuda.mem_alloc_async) &&
         find(library, "cuMemFreeAsync", g_cuda.mem_free_async) &&
         find(library, "cuMemHostAlloc", g_cuda.host_alloc) &&
         find(library, "cuMemFreeHost", g_cuda.host_free) &&
         find(library, "cuMemcpyHtoDAsync_v2", g_cuda.copy_to_device) &&
         find(library, "cuMemsetD8Async", g_cuda.fill) &&
         find(library, "cuStreamCreate", g_cuda.stream_create) &&
         find(library, "cuStreamSynchronize", g_cuda.stream_synchronize) &&
         find(library, "cuStreamDestroy_v2", g_cuda.stream_destroy);
}

void require(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "cuda_benchmark: %s failed with CUresult %d\n", what, static_cast<int>(result));
  exit(1);
}

/// What this program holds on the device, by its own book-keeping.
struct Held {
  uint64_t live = 0, peak = 0;
  void add(uint64_t bytes) {
    live += bytes;
    peak = std::max(peak, live);
  }
} g_held;

struct DeviceBuffer {
  CUdeviceptr at = 0;
  uint64_t bytes = 0;
};

struct Model {
  std::vector<DeviceBuffer> weights;
};

struct Session {
  CUstream stream = nullptr;
  void* staging = nullptr;
};

DeviceBuffer allocate(uint64_t bytes) {
  DeviceBuffer buffer{.bytes = bytes};
  require(g_cuda.mem_alloc(&buffer.at, bytes), "cuMemAlloc");
  g_held.add(bytes);
  return buffer;
}

void release(const DeviceBuffer& buffer) {
  require(g_cuda.mem_free(buffer.at), "cuMemFree");
  g_held.live -= buffer.bytes;
}

// Functions of their own, each named after what it allocates: a report should point at them.

__attribute__((noinline)) void load_embeddings(Model& model) {
  model.weights.push_back(allocate(kVocabulary * kHidden * kBytesPerWeight));
}

__attribute__((noinline)) void load_attention_weights(Model& model) {
  for (int projection = 0; projection < 4; ++projection) {
    model.weights.push_back(allocate(kHidden * kHidden * kBytesPerWeight));
  }
}

__attribute__((noinline)) void load_mlp_weights(Model& model) {
  model.weights.push_back(allocate(4 * kHidden * kHidden * kBytesPerWeight));
  model.weights.push_back(allocate(4 * kHidden * kHidden * kBytesPerWeight));
}

__attribute__((noinline)) Model load_model() {
  Model model;
  load_embeddings(model);
  for (int layer = 0; layer < kLayers; ++layer) {
    load_attention_weights(model);
    load_mlp_weights(model);
  }
  return model;
}

__attribute__((noinline)) Session open_session() {
  Session session;
  require(g_cuda.stream_create(&session.stream, CU_STREAM_NON_BLOCKING), "cuStreamCreate");
  require(g_cuda.host_alloc(&session.staging, kStagingBytes, 0), "cuMemHostAlloc");
  memset(session.staging, 1, kStagingBytes);
  return session;
}

__attribute__((noinline)) void run_layers(Session& session) {
  CUdeviceptr activations = 0;
  require(g_cuda.mem_alloc_async(&activations, kActivationBytes, session.stream),
          "cuMemAllocAsync");
  g_held.add(kActivationBytes);
  require(g_cuda.copy_to_device(activations, session.staging, kStagingBytes, session.stream),
          "cuMemcpyHtoDAsync");
  require(g_cuda.fill(activations, 0, kActivationBytes, session.stream), "cuMemsetD8Async");
  require(g_cuda.mem_free_async(activations, session.stream), "cuMemFreeAsync");
  g_held.live -= kActivationBytes;
  require(g_cuda.stream_synchronize(session.stream), "cuStreamSynchronize");
}

/// As libraries do that try several algorithms before they settle on one: the peak of the program.
__attribute__((noinline)) void run_first_with_autotuning(Session& session) {
  const DeviceBuffer workspace = allocate(kWorkspaceBytes);
  run_layers(session);
  release(workspace);
}

template <typename Work>
double milliseconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
      .count();
}

__attribute__((noinline)) void run_steadily(Session& session) {
  std::vector<double> times;
  for (int run = 0; run < kSteadyRuns; ++run)
    times.push_back(milliseconds([&] { run_layers(session); }));
  std::sort(times.begin(), times.end());
  printf("latency: median %.3f ms, best %.3f ms, worst %.3f ms over %d runs\n",
         times[times.size() / 2], times.front(), times.back(), kSteadyRuns);
}

CUdevice open_device() {
  CUdevice device = 0;
  CUcontext context = nullptr;
  char name[128] = {};
  require(g_cuda.device_get(&device, 0), "cuDeviceGet");
  require(g_cuda.device_name(name, sizeof name - 1, device), "cuDeviceGetName");
  require(g_cuda.context_retain(&context, device), "cuDevicePrimaryCtxRetain");
  require(g_cuda.context_set(context), "cuCtxSetCurrent");
  printf("device: %s\n", name);
  return device;
}

}  // namespace

int main() {
  if (!load_driver()) return kSkipped;
  if (const CUresult result = g_cuda.init(0); result != CUDA_SUCCESS) {
    fprintf(stderr, "cuda_benchmark: no usable GPU here (cuInit: CUresult %d); skipped\n",
            static_cast<int>(result));
    return kSkipped;
  }
  const CUdevice device = open_device();
  Model model;
  Session session;
  {
    gpupeak::Phase phase("load");
    model = load_model();
    session = open_session();
    printf("model: %zu tensors, %.1f MB\n", model.weights.size(),
           static_cast<double>(g_held.live) / 1e6);
  }
  {
    gpupeak::Phase phase("first run");
    printf("first run: %.3f ms\n", milliseconds([&] { run_first_with_autotuning(session); }));
  }
  {
    gpupeak::Phase phase("steady");
    run_steadily(session);
  }
  {
    gpupeak::Phase phase("shutdown");
    for (const DeviceBuffer& buffer : model.weights) release(buffer);
    require(g_cuda.host_free(session.staging), "cuMemFreeHost");
    require(g_cuda.stream_destroy(session.stream), "cuStreamDestroy");
    require(g_cuda.context_release(device), "cuDevicePrimaryCtxRelease");
  }
  printf("expected device peak: %llu bytes\n", static_cast<unsigned long long>(g_held.peak));
  return 0;
}
