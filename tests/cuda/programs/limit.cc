// Takes device memory in every way, in an order that its seed decides, until much of it is refused,
// and prints what each call answered: the same on a card of that size and on a larger one with a
// limit.
//
// limit SEED [DEVICE]   one thread, all families
// limit threads         four threads at once, until nothing is left: how many pages they got
// limit far             far below the limit: nothing is taken that the program did not ask for
// limit rest            near it, and then for a second not: what was taken is given back
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "client.h"

extern "C" void fake_cuda_touch(unsigned long long at);

namespace {

struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlMemory2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

struct Nvml {
  int (*memory)(void*, NvmlMemory*) = nullptr;
  int (*memory_v2)(void*, NvmlMemory2*) = nullptr;
  void* device = nullptr;

  explicit Nvml(int ordinal) {
    void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    CHECK(library != nullptr);
    const auto by_uuid = reinterpret_cast<int (*)(const char*, void**)>(
        dlsym(library, "nvmlDeviceGetHandleByUUID"));
    const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
    memory = reinterpret_cast<decltype(memory)>(dlsym(library, "nvmlDeviceGetMemoryInfo"));
    memory_v2 = reinterpret_cast<decltype(memory_v2)>(dlsym(library, "nvmlDeviceGetMemoryInfo_v2"));
    CHECK(init() == 0);
    CHECK(by_uuid(ordinal == 0 ? "GPU-00" : "GPU-01", &device) == 0);
  }

  void print() const {
    NvmlMemory one{};
    NvmlMemory2 two{.version = sizeof two | (2u << 24), .total = 0, .reserved = 0, .free = 0, .used = 0};
    CHECK(memory(device, &one) == 0 && memory_v2(device, &two) == 0);
    printf("  nvml %llu %llu %llu, %llu %llu %llu %llu\n", one.total, one.free, one.used, two.total,
           two.reserved, two.free, two.used);
  }
};

class Asker {
 public:
  Asker(unsigned seed, int device) : random_(seed), device_(device), nvml_(device) {
    use_device(device);
    OK(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING));
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    OK(cuMemPoolCreate(&pool_, &properties));
    cuuint64_t keep = 256 * kMiB;
    OK(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cuModuleLoadData(&module_, "image"));
  }

  void run() {
    const std::vector<std::pair<const char*, std::function<CUresult()>>> calls = {
        {"linear", [this] { return linear(); }},
        {"linear", [this] { return linear(); }},
        {"pitch", [this] { return pitch(); }},
        {"create", [this] { return create(); }},
        {"array", [this] { return array(); }},
        {"mipmap", [this] { return mipmap(); }},
        {"async", [this] { return async(nullptr); }},
        {"async", [this] { return async(nullptr); }},
        {"pool", [this] { return async(pool_); }},
        {"managed", [this] { return managed(); }},
        {"graph", [this] { return graph(); }},
        {"launch", [this] { return launch(); }},
        {"context", [this] { return context(); }},
        {"stream", [this] { return stream(); }},
        {"free", [this] { return free(); }},
        {"free", [this] { return free(); }},
        {"free", [this] { return free(); }},
        {"synchronise", [] { return cuCtxSynchronize(); }},
        {"trim", [this] { return cuMemPoolTrimTo(pool_, 64 * kMiB); }},
        {"trim graphs", [this] { return cuDeviceGraphMemTrim(device_); }},
    };
    for (int i = 0; i < 600; ++i) {
      const auto& [name, call] = calls[random_() % calls.size()];
      untouched_ = true;
      const CUresult result = call();
      printf("%d %s: %d%s\n", i, name, result, untouched_ ? "" : ", and wrote");
      size_t free_bytes = 0, total = 0, of_device = 0;
      OK(cuMemGetInfo(&free_bytes, &total));
      OK(cuDeviceTotalMem(&of_device, device_));
      printf("  %zu of %zu, %zu\n", free_bytes, total, of_device);
      nvml_.print();
    }
  }

 private:
  /// From a few bytes to 700 MiB, most of them small.
  uint64_t bytes() {
    constexpr uint64_t kMost[] = {4 * kKiB, kMiB, 3 * kMiB, 40 * kMiB, 700 * kMiB};
    return 1 + random_() % kMost[random_() % 5];
  }
  /// Whether a call that failed has left what it would have written.
  template <typename Value>
  CUresult note(CUresult result, Value value, Value before) {
    untouched_ = result == CUDA_SUCCESS || value == before;
    return result;
  }
  CUresult keep(CUresult result, CUdeviceptr at, std::function<CUresult()> end) {
    if (result == CUDA_SUCCESS) live_.push_back(std::move(end));
    return note(result, at, kUnset);
  }

  CUresult linear() {
    CUdeviceptr at = kUnset;
    const CUresult result = cuMemAlloc(&at, bytes());
    return keep(result, at, [at] { return cuMemFree(at); });
  }
  CUresult pitch() {
    CUdeviceptr at = kUnset;
    size_t pitch = 0;
    const CUresult result = cuMemAllocPitch(&at, &pitch, 1 + random_() % 100000, 1 + random_() % 2000, 4);
    return keep(result, at, [at] { return cuMemFree(at); });
  }
  CUresult create() {
    CUmemGenericAllocationHandle handle = kUnset;
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device_};
    const CUresult result =
        cuMemCreate(&handle, (bytes() + 2 * kMiB) / (2 * kMiB) * 2 * kMiB, &properties, 0);
    return keep(result, handle, [handle] { return cuMemRelease(handle); });
  }
  CUresult array() {
    CUarray array = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR descriptor{.Width = 1 + random_() % 2000,
                                             .Height = 1 + random_() % 2000,
                                             .Depth = 1 + random_() % 20,
                                             .Format = CU_AD_FORMAT_FLOAT,
                                             .NumChannels = 4,
                                             .Flags = 0};
    const CUresult result = cuArray3DCreate(&array, &descriptor);
    if (result == CUDA_SUCCESS) live_.push_back([array] { return cuArrayDestroy(array); });
    return note<CUarray>(result, array, nullptr);
  }
  CUresult mipmap() {
    CUmipmappedArray array = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR descriptor{.Width = 1 + random_() % 4000,
                                             .Height = 1 + random_() % 4000,
                                             .Depth = 0,
                                             .Format = CU_AD_FORMAT_FLOAT,
                                             .NumChannels = 4,
                                             .Flags = 0};
    const CUresult result = cuMipmappedArrayCreate(&array, &descriptor, 4);
    if (result == CUDA_SUCCESS) live_.push_back([array] { return cuMipmappedArrayDestroy(array); });
    return note<CUmipmappedArray>(result, array, nullptr);
  }
  CUresult async(CUmemoryPool pool) {
    CUdeviceptr at = kUnset;
    const uint64_t asked = bytes();
    const CUresult result = pool != nullptr ? cuMemAllocFromPoolAsync(&at, asked, pool, stream_)
                                            : cuMemAllocAsync(&at, asked, stream_);
    return keep(result, at, [this, at] { return cuMemFreeAsync(at, stream_); });
  }
  CUresult managed() {
    CUdeviceptr at = kUnset;
    const CUresult result = cuMemAllocManaged(&at, bytes(), CU_MEM_ATTACH_GLOBAL);
    if (result == CUDA_SUCCESS && random_() % 4 == 0) fake_cuda_touch(at);
    return keep(result, at, [at] { return cuMemFree(at); });
  }
  CUresult graph() {
    CUgraph graph;
    CUgraphExec executable;
    CUdeviceptr at = 0;
    const uint64_t asked = bytes();
    OK(cuStreamBeginCapture(stream_, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cuMemAllocAsync(&at, asked, stream_));
    OK(cuMemFreeAsync(at, stream_));
    OK(cuStreamEndCapture(stream_, &graph));
    OK(cuGraphInstantiateWithFlags(&executable, graph, 0));
    OK(cuGraphDestroy(graph));
    const CUresult result = cuGraphLaunch(executable, stream_);
    live_.push_back([executable] { return cuGraphExecDestroy(executable); });
    return result;
  }
  CUresult launch() {
    CUfunction function;
    const std::string name = "local_" + std::to_string(1024 + random_() % 2000);
    OK(cuModuleGetFunction(&function, module_, name.c_str()));
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
  }
  CUresult context() {
    CUcontext context = nullptr;
    const CUresult result = create_context(&context, 0, device_);
    if (result == CUDA_SUCCESS) {
      CUcontext top;
      OK(cuCtxPopCurrent(&top));
      live_.push_back([context] { return cuCtxDestroy(context); });
    }
    return note<CUcontext>(result, context, nullptr);
  }
  CUresult stream() {
    CUstream stream = nullptr;
    const CUresult result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
    return note<CUstream>(result, stream, nullptr);
  }
  CUresult free() {
    if (live_.empty()) return CUDA_SUCCESS;
    const size_t which = random_() % live_.size();
    const CUresult result = live_[which]();
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(which));
    return result;
  }

  static constexpr CUdeviceptr kUnset = 0x5a5a5a5a;
  std::mt19937_64 random_;
  const int device_;
  const Nvml nvml_;
  CUstream stream_ = nullptr;
  CUmemoryPool pool_ = nullptr;
  CUmodule module_ = nullptr;
  std::vector<std::function<CUresult()>> live_;
  bool untouched_ = true;
};

void take_with_threads() {
  use_device(0);
  std::vector<std::thread> threads;
  std::vector<int> pages(4);
  for (int& mine : pages) {
    threads.emplace_back([&mine] {
      use_device(0);
      CUdeviceptr at;
      while (cuMemAlloc(&at, 2 * kMiB) == CUDA_SUCCESS) ++mine;
    });
  }
  for (std::thread& thread : threads) thread.join();
  printf("%d pages\n", pages[0] + pages[1] + pages[2] + pages[3]);
}

void stay_far() {
  use_device(0);
  for (int i = 0; i < 200; ++i) {
    OK(cuMemFree(allocate(10 * kMiB)));
    CUdeviceptr at;
    OK(cuMemAllocAsync(&at, 10 * kMiB, nullptr));
    OK(cuMemFreeAsync(at, nullptr));
  }
  CHECK(fake_cuda_ledger(0, "vmm", "peak") == 0);
}

/// The last page but a few is taken and given back again; later a synchronise finds time to rest.
void rest() {
  use_device(0);
  size_t free_bytes = 0, total = 0;
  OK(cuMemGetInfo(&free_bytes, &total));
  const CUdeviceptr most = allocate(free_bytes - 8 * kMiB);
  CHECK(live(0, "vmm") > 0);
  OK(cuMemFree(most));
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  OK(cuCtxSynchronize());
  CHECK(live(0, "vmm") == 0);
  size_t free_then = 0;
  OK(cuMemGetInfo(&free_then, &total));
  CHECK(free_then == free_bytes);
}

}  // namespace

int main(int, char** arguments) {
  const std::string what = arguments[1];
  if (what == "threads")
    take_with_threads();
  else if (what == "far")
    stay_far();
  else if (what == "rest")
    rest();
  else
    Asker(static_cast<unsigned>(std::stoul(what)), arguments[2] != nullptr ? atoi(arguments[2]) : 0)
        .run();
  return finish();
}
