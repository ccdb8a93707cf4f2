// A stand-in for libcudart: a few of its functions. It reaches the driver as the real libcudart
// does. It asks dlsym for cuGetProcAddress_v2 only; it asks that function for itself, and then for
// 440 functions. If there is no such function (or with FAKE_CUDART_DLSYM=1) it asks dlsym for 440
// names. It asks once, and keeps what it was given.
#include "cudart.h"

#include <cuda.h>
#include <dlfcn.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace {

using Result = int;  // cudaError_t, which has the driver's values for the errors used here
constexpr Result kInitializationError = 3;
constexpr Result kInsufficientDriver = 35;

using Lookup = CUresult (*)(const char*, void**, int, cuuint64_t, int*);

class Runtime {
 public:
  Runtime() {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) return;
    auto lookup = reinterpret_cast<Lookup>(dlsym(library, "cuGetProcAddress_v2"));
    const bool by_name = lookup == nullptr || getenv("FAKE_CUDART_DLSYM") != nullptr;
    if (by_name)
      ask_dlsym(library);
    else
      ask_lookup(lookup);
    const auto init = find<CUresult (*)(unsigned)>("cuInit");
    ready_ = init != nullptr && init(0) == CUDA_SUCCESS;
  }

  bool ready() const { return ready_; }

  /// By the name of the export.
  template <typename Function>
  Function find(const char* export_name) const {
    const auto at = functions_.find(export_name);
    return at != functions_.end() ? reinterpret_cast<Function>(at->second) : nullptr;
  }

 private:
  void ask_dlsym(void* library) {
#define EXPORT(name) functions_[#name] = dlsym(library, #name);
#include "exported_names.def"
#undef EXPORT
  }

  void ask_lookup(Lookup lookup) {
    int status = 0;
    void* found = nullptr;
    lookup("", &found, 0, 0, &status);
    lookup("cuGetProcAddress", &found, 12000, 0, &status);
    if (found != nullptr) lookup = reinterpret_cast<Lookup>(found);
    const auto ask = [&](const char* name, int version, cuuint64_t flags) {
      void* answer = nullptr;
      if (lookup(name, &answer, version, flags, &status) != CUDA_SUCCESS) answer = nullptr;
      answers_[{name, version, static_cast<int>(flags)}] = answer;
    };
#define REQUEST(name, version, flags) ask(#name, version, flags);
#include "requested_names.def"
#undef REQUEST
    use("cuInit", "cuInit", 2000);
    use("cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRetain", 7000);
    use("cuDevicePrimaryCtxReset", "cuDevicePrimaryCtxReset", 7000);
    use("cuCtxGetCurrent", "cuCtxGetCurrent", 4000);
    use("cuCtxSetCurrent", "cuCtxSetCurrent", 4000);
    use("cuCtxSynchronize", "cuCtxSynchronize", 2000);
    use("cuMemAlloc_v2", "cuMemAlloc", 3020);
    use("cuMemAllocPitch_v2", "cuMemAllocPitch", 3020);
    use("cuMemFree_v2", "cuMemFree", 3020);
    use("cuMemGetInfo_v2", "cuMemGetInfo", 3020);
    use("cuMemHostAlloc", "cuMemHostAlloc", 2020);
    use("cuMemFreeHost", "cuMemFreeHost", 2000);
    use("cuMemHostRegister_v2", "cuMemHostRegister", 6050);
    use("cuMemHostUnregister", "cuMemHostUnregister", 4000);
    use("cuMemAllocManaged", "cuMemAllocManaged", 6000);
    use("cuMemAllocAsync", "cuMemAllocAsync", 11020);
    use("cuMemAllocAsync_ptsz", "cuMemAllocAsync", 11020, 2);
    use("cuMemFreeAsync", "cuMemFreeAsync", 11020);
    use("cuMemFreeAsync_ptsz", "cuMemFreeAsync", 11020, 2);
    use("cuArray3DCreate_v2", "cuArray3DCreate", 3020);
    use("cuArrayDestroy", "cuArrayDestroy", 2000);
    use("cuStreamCreate", "cuStreamCreate", 2000);
    use("cuStreamDestroy_v2", "cuStreamDestroy", 4000);
    use("cuStreamSynchronize", "cuStreamSynchronize", 2000);
  }

  void use(const char* export_name, const char* name, int version, int flags = 0) {
    functions_[export_name] = answers_[{name, version, flags}];
  }

  std::map<std::tuple<std::string, int, int>, void*> answers_;
  std::map<std::string, void*> functions_;
  bool ready_ = false;
};

Runtime& runtime() {
  static auto* const instance = new Runtime;
  return *instance;
}

thread_local int t_device = 0;

/// Makes the primary context of the thread's device current. Retains it once, and again after a
/// reset.
Result use_device() {
  static std::mutex lock;
  static std::map<int, CUcontext> contexts;
  const std::lock_guard guard(lock);
  if (!runtime().ready()) return kInsufficientDriver;
  using SetCurrent = CUresult (*)(CUcontext);
  const auto set_current = runtime().find<SetCurrent>("cuCtxSetCurrent");
  if (const auto known = contexts.find(t_device); known != contexts.end()) {
    if (set_current(known->second) == CUDA_SUCCESS) return 0;
  }
  CUcontext context = nullptr;
  using Retain = CUresult (*)(CUcontext*, CUdevice);
  if (runtime().find<Retain>("cuDevicePrimaryCtxRetain")(&context, t_device) != CUDA_SUCCESS) {
    return kInitializationError;
  }
  contexts[t_device] = context;
  return set_current(context);
}

/// Calls the driver's function of that export name, in the thread's context.
template <typename... Parameters>
Result call(const char* export_name, Parameters... parameters) {
  if (const Result result = use_device(); result != 0) return result;
  const auto function = runtime().find<CUresult (*)(Parameters...)>(export_name);
  return function != nullptr ? function(parameters...) : kInitializationError;
}

CUdeviceptr address(void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
CUdeviceptr* address(void** out) {
  return reinterpret_cast<CUdeviceptr*>(out);
}

}  // namespace

#define FAKE_CUDART extern "C" __attribute__((visibility("default"))) Result

FAKE_CUDART cudaSetDevice(int device) {
  t_device = device;
  return use_device();
}
FAKE_CUDART cudaMalloc(void** out, size_t bytes) {
  return call("cuMemAlloc_v2", address(out), bytes);
}
FAKE_CUDART cudaMallocPitch(void** out, size_t* pitch, size_t width, size_t height) {
  return call("cuMemAllocPitch_v2", address(out), pitch, width, height, 4u);
}
FAKE_CUDART cudaFree(void* at) {
  return call("cuMemFree_v2", address(at));
}
FAKE_CUDART cudaMallocAsync(void** out, size_t bytes, CUstream stream) {
  return call("cuMemAllocAsync", address(out), bytes, stream);
}
FAKE_CUDART cudaMallocAsync_ptsz(void** out, size_t bytes, CUstream stream) {
  return call("cuMemAllocAsync_ptsz", address(out), bytes, stream);
}
FAKE_CUDART cudaFreeAsync(void* at, CUstream stream) {
  return call("cuMemFreeAsync", address(at), stream);
}
FAKE_CUDART cudaFreeAsync_ptsz(void* at, CUstream stream) {
  return call("cuMemFreeAsync_ptsz", address(at), stream);
}
FAKE_CUDART cudaMallocHost(void** out, size_t bytes) {
  return call("cuMemHostAlloc", out, bytes, 0u);
}
FAKE_CUDART cudaFreeHost(void* at) {
  return call("cuMemFreeHost", at);
}
FAKE_CUDART cudaHostRegister(void* at, size_t bytes, unsigned flags) {
  return call("cuMemHostRegister_v2", at, bytes, flags);
}
FAKE_CUDART cudaHostUnregister(void* at) {
  return call("cuMemHostUnregister", at);
}
FAKE_CUDART cudaMallocManaged(void** out, size_t bytes, unsigned flags) {
  return call("cuMemAllocManaged", address(out), bytes, flags);
}
FAKE_CUDART cudaMalloc3DArrayOfFloats(CUarray* out, size_t width, size_t height, size_t depth) {
  const CUDA_ARRAY3D_DESCRIPTOR shape{width, height, depth, CU_AD_FORMAT_FLOAT, 1, 0};
  return call("cuArray3DCreate_v2", out, &shape);
}
FAKE_CUDART cudaFreeArray(CUarray array) {
  return call("cuArrayDestroy", array);
}
FAKE_CUDART cudaMemGetInfo(size_t* free_bytes, size_t* total) {
  return call("cuMemGetInfo_v2", free_bytes, total);
}
FAKE_CUDART cudaStreamCreate(CUstream* out) {
  return call("cuStreamCreate", out, 0u);
}
FAKE_CUDART cudaStreamDestroy(CUstream stream) {
  return call("cuStreamDestroy_v2", stream);
}
FAKE_CUDART cudaStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", stream);
}
FAKE_CUDART cudaDeviceSynchronize() {
  return call("cuCtxSynchronize");
}
FAKE_CUDART cudaDeviceReset() {
  return call("cuDevicePrimaryCtxReset", static_cast<CUdevice>(t_device));
}
