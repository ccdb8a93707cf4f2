// A training step of a small network, as MXNet's would allocate: each layer is a phase, and each
// data structure (weights, gradients, activations, optimizer state, workspace) has a function of
// its own that allocates it. Nothing in here names a tag: layers.toml makes the tags of those
// functions.
//
//   gpupeak run -o layers.gplog -- ./layers
//   gpupeak tags --rules layers.toml layers.gplog
//   gpupeak phases layers.gplog
//
// It prints how many bytes it means to hold at its peak by layer and by data structure, so that the
// two views can be checked. Without a CUDA driver it says so and exits with 77.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gpupeak/gpupeak.h"

namespace layers {

constexpr int kSkipped = 77;
constexpr int kSteps = 20;
constexpr uint64_t kBytesPerValue = 4;

struct Driver {
  CUresult (*init)(unsigned);
  CUresult (*device_get)(CUdevice*, int);
  CUresult (*context_retain)(CUcontext*, CUdevice);
  CUresult (*context_set)(CUcontext);
  CUresult (*mem_alloc)(CUdeviceptr*, size_t);
  CUresult (*mem_free)(CUdeviceptr);
} g_cuda;

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool load_driver() {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return library != nullptr && find(library, "cuInit", g_cuda.init) &&
         find(library, "cuDeviceGet", g_cuda.device_get) &&
         find(library, "cuDevicePrimaryCtxRetain", g_cuda.context_retain) &&
         find(library, "cuCtxSetCurrent", g_cuda.context_set) &&
         find(library, "cuMemAlloc_v2", g_cuda.mem_alloc) &&
         find(library, "cuMemFree_v2", g_cuda.mem_free);
}

void require(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  fprintf(stderr, "layers: %s failed with CUresult %d\n", what, static_cast<int>(result));
  exit(1);
}

/// Device memory as long as this object.
class Buffer {
 public:
  explicit Buffer(uint64_t values) {
    require(g_cuda.mem_alloc(&at_, values * kBytesPerValue), "cuMemAlloc");
  }
  ~Buffer() {
    if (at_ != 0) g_cuda.mem_free(at_);
  }
  Buffer(Buffer&& other) noexcept : at_(other.at_) { other.at_ = 0; }
  Buffer& operator=(Buffer&&) = delete;

 private:
  CUdeviceptr at_ = 0;
};

struct Shape {
  const char* name;
  uint64_t weights, activations, workspace;  ///< values, not bytes
};

constexpr Shape kNetwork[] = {
    {"embed", 2'000'000, 400'000, 0},
    {"conv1", 300'000, 1'600'000, 4'000'000},
    {"conv2", 1'200'000, 800'000, 6'000'000},
    {"fc", 5'000'000, 10'000, 0},
};

// The functions that layers.toml knows. Not inlined, so that each is a frame of its own in any
// build.
[[gnu::noinline]] Buffer allocate_weights(const Shape& shape) {
  return Buffer(shape.weights);
}
[[gnu::noinline]] Buffer allocate_gradients(const Shape& shape) {
  return Buffer(shape.weights);
}
[[gnu::noinline]] Buffer allocate_optimizer_state(const Shape& shape) {
  return Buffer(shape.weights * 2);
}
[[gnu::noinline]] Buffer allocate_activations(const Shape& shape) {
  return Buffer(shape.activations);
}
[[gnu::noinline]] Buffer allocate_workspace(const Shape& shape) {
  return Buffer(shape.workspace);
}

/// All layers' activations live to the end of a step, and with them one layer's workspace at a
/// time.
void train_step() {
  const gpupeak::Phase step("step");
  std::vector<Buffer> activations;
  for (const Shape& shape : kNetwork) {
    const gpupeak::Phase layer(shape.name);
    activations.push_back(allocate_activations(shape));
    if (shape.workspace > 0) const Buffer workspace = allocate_workspace(shape);
  }
}

void print_expected() {
  uint64_t weights = 0;
  uint64_t activations = 0;
  for (const Shape& shape : kNetwork) {
    weights += shape.weights * kBytesPerValue;
    if (&shape != &kNetwork[3]) activations += shape.activations * kBytesPerValue;
  }
  // The peak is within conv2, where the workspace is largest; fc has no activations yet.
  printf("expected tag Weights %llu\n", static_cast<unsigned long long>(weights));
  printf("expected tag Gradients %llu\n", static_cast<unsigned long long>(weights));
  printf("expected tag Optimizer state %llu\n", static_cast<unsigned long long>(2 * weights));
  printf("expected tag Activations %llu\n", static_cast<unsigned long long>(activations));
  printf("expected tag Workspace %llu\n",
         static_cast<unsigned long long>(kNetwork[2].workspace * kBytesPerValue));
  for (const Shape& shape : kNetwork) {
    uint64_t values = 4 * shape.weights;
    if (&shape != &kNetwork[3]) values += shape.activations;
    if (&shape == &kNetwork[2]) values += shape.workspace;
    printf("expected layer %s %llu\n", shape.name,
           static_cast<unsigned long long>(values * kBytesPerValue));
  }
}

int run() {
  if (!load_driver()) {
    fprintf(stderr, "layers: no CUDA driver here; skipped\n");
    return kSkipped;
  }
  CUdevice device = 0;
  CUcontext context = nullptr;
  require(g_cuda.init(0), "cuInit");
  require(g_cuda.device_get(&device, 0), "cuDeviceGet");
  require(g_cuda.context_retain(&context, device), "cuDevicePrimaryCtxRetain");
  require(g_cuda.context_set(context), "cuCtxSetCurrent");
  std::vector<Buffer> model;
  {
    const gpupeak::Phase build("build");
    for (const Shape& shape : kNetwork) {
      const gpupeak::Phase layer(shape.name);
      model.push_back(allocate_weights(shape));
      model.push_back(allocate_gradients(shape));
      model.push_back(allocate_optimizer_state(shape));
    }
  }
  for (int i = 0; i < kSteps; ++i) train_step();
  print_expected();
  return 0;
}

}  // namespace layers

int main() {
  return layers::run();
}
