// Random valid calls of several threads: random SEED [free]. In turns (one lock), so that the peaks
// are the same for everybody; with "free" the calls run at once, and only what is live at the end
// is.
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "client.h"

namespace {

constexpr int kThreads = 4, kSteps = 600, kDevices = 2;
std::mutex g_turn;
bool g_in_turns = true;

class Client {
 public:
  Client(unsigned seed, CUcontext contexts[kDevices]) : random_(seed), contexts_(contexts) {}

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      std::unique_lock turn(g_turn, std::defer_lock);
      if (g_in_turns) turn.lock();
      OK(cuCtxSetCurrent(contexts_[below(kDevices)]));
      if (!held_.empty() && below(100) < 48)
        free_one();
      else
        allocate_one();
    }
  }

 private:
  enum class What { pointer, async, host, handle, array };
  struct Held {
    What what;
    uint64_t value;
  };

  uint64_t below(uint64_t limit) { return random_() % limit; }
  uint64_t size() { return below(3) == 0 ? 1 + below(20 * kMiB) : 1 + below(8000); }

  void allocate_one() {
    CUdeviceptr at = 0;
    void* host = nullptr;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    size_t pitch;
    switch (below(8)) {
      case 0:
      case 1:
        OK(cuMemAlloc(&at, size()));
        return keep(What::pointer, at);
      case 2:
        OK(cuMemAllocPitch(&at, &pitch, 1 + below(5000), 1 + below(100), 4));
        return keep(What::pointer, at);
      case 3:
        OK(cuMemAllocAsync(&at, size(), nullptr));
        return keep(What::async, at);
      case 4:
        OK(cuMemAllocManaged(&at, size(), CU_MEM_ATTACH_GLOBAL));
        return keep(What::pointer, at);
      case 5:
        OK(cuMemHostAlloc(&host, size(), 0));
        return keep(What::host, reinterpret_cast<uint64_t>(host));
      case 6: {
        CUmemAllocationProp properties{};
        properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(below(kDevices))};
        OK(cuMemCreate(&handle, 2 * kMiB * (1 + below(8)), &properties, 0));
        return keep(What::handle, handle);
      }
      default: {
        const CUDA_ARRAY_DESCRIPTOR shape{1 + below(300), below(300), CU_AD_FORMAT_FLOAT, 2};
        OK(cuArrayCreate(&array, &shape));
        return keep(What::array, reinterpret_cast<uint64_t>(array));
      }
    }
  }

  void keep(What what, uint64_t value) { held_.push_back({what, value}); }

  void free_one() {
    const size_t index = below(held_.size());
    const Held held = held_[index];
    held_[index] = held_.back();
    held_.pop_back();
    switch (held.what) {
      case What::pointer:
        OK(cuMemFree(held.value));
        break;
      case What::async:
        if (below(2) == 0)
          OK(cuMemFreeAsync(held.value, nullptr));
        else
          OK(cuMemFree(held.value));
        break;
      case What::host:
        OK(cuMemFreeHost(reinterpret_cast<void*>(held.value)));
        break;
      case What::handle:
        OK(cuMemRelease(held.value));
        break;
      case What::array:
        OK(cuArrayDestroy(reinterpret_cast<CUarray>(held.value)));
        break;
    }
  }

  std::mt19937_64 random_;
  CUcontext* contexts_;
  std::vector<Held> held_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto seed = static_cast<unsigned>(argc > 1 ? atoi(argv[1]) : 1);
  g_in_turns = argc <= 2 || strcmp(argv[2], "free") != 0;
  CUcontext contexts[kDevices];
  for (int device = 0; device < kDevices; ++device) contexts[device] = use_device(device);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { Client(seed * 100 + i, contexts).run(); });
  }
  for (std::thread& thread : threads) thread.join();
  return finish();
}
