// Random valid calls of several threads, of every family that hands out memory and of those that
// only take some: random SEED [free]. In turns (one lock), so that the peaks are the same for
// everybody; with "free" the calls run at once, and only what is live at the end is.
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "client.h"

namespace {

constexpr int kThreads = 4, kSteps = 600, kDevices = 2, kPools = 3;
constexpr uint64_t kPage = 2 * kMiB;
std::mutex g_turn;
bool g_in_turns = true;
CUmemoryPool g_pools[kDevices][kPools];

// Newer than the oldest headers that this is built with.
extern "C" CUresult create_green_context(void** out, void* resources, CUdevice device,
                                         unsigned flags) asm("cuGreenCtxCreate");
extern "C" CUresult destroy_green_context(void* green) asm("cuGreenCtxDestroy");
struct MulticastProperties {
  unsigned devices;
  size_t bytes;
  unsigned long long handle_types, flags;
};
extern "C" CUresult create_multicast(CUmemGenericAllocationHandle* out,
                                     const MulticastProperties*) asm("cuMulticastCreate");
extern "C" CUresult add_multicast_device(CUmemGenericAllocationHandle,
                                         CUdevice) asm("cuMulticastAddDevice");

class Client {
 public:
  Client(unsigned seed, CUcontext contexts[kDevices]) : random_(seed), contexts_(contexts) {}

  void run() {
    for (int step = 0; step < kSteps; ++step) {
      std::unique_lock turn(g_turn, std::defer_lock);
      if (g_in_turns) turn.lock();
      device_ = static_cast<int>(below(kDevices));
      OK(cuCtxSetCurrent(contexts_[device_]));
      if (below(8) == 0)
        take_unasked();
      else if (!held_.empty() && below(100) < 48)
        free_one();
      else
        allocate_one();
    }
  }

 private:
  enum class What { pointer, async, host, handle, array, mapping, green, module };
  struct Held {
    What what;
    uint64_t value;
    uint64_t extra = 0;  ///< bytes of a mapping, device of a module
  };

  uint64_t below(uint64_t limit) { return random_() % limit; }
  uint64_t size() { return below(3) == 0 ? 1 + below(20 * kMiB) : 1 + below(8000); }

  void allocate_one() {
    CUdeviceptr at = 0;
    void* host = nullptr;
    CUarray array;
    CUmemGenericAllocationHandle handle;
    size_t pitch;
    switch (below(11)) {
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
      case 6:
        return keep(What::handle, create_handle(pages()));
      case 7:
        return map(create_handle(2 * kPage), 2 * kPage);
      case 8: {
        const MulticastProperties properties{
            .devices = 1, .bytes = kPage, .handle_types = 0, .flags = 0};
        OK(create_multicast(&handle, &properties));
        OK(add_multicast_device(handle, device_));
        return map(handle, kPage);
      }
      case 9: {
        CUDA_ARRAY3D_DESCRIPTOR shape{};
        shape = {.Width = 1024,
                 .Height = 1024,
                 .Depth = 0,
                 .Format = CU_AD_FORMAT_FLOAT,
                 .NumChannels = 1,
                 .Flags = CUDA_ARRAY3D_SPARSE};
        OK(cuArray3DCreate(&array, &shape));
        map_tiles(array);
        return keep(What::array, reinterpret_cast<uint64_t>(array));
      }
      default: {
        const CUDA_ARRAY_DESCRIPTOR shape{1 + below(300), below(300), CU_AD_FORMAT_FLOAT, 2};
        OK(cuArrayCreate(&array, &shape));
        return keep(What::array, reinterpret_cast<uint64_t>(array));
      }
    }
  }

  uint64_t pages() { return kPage * (1 + below(8)); }

  CUmemGenericAllocationHandle create_handle(uint64_t bytes) {
    CUmemAllocationProp properties{};
    properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(below(kDevices))};
    CUmemGenericAllocationHandle handle;
    OK(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
  }

  /// Page by page, so that one unmap undoes many; the mapping alone keeps the memory.
  void map(CUmemGenericAllocationHandle handle, uint64_t bytes) {
    CUdeviceptr at;
    OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    for (uint64_t offset = 0; offset < bytes; offset += kPage)
      OK(cuMemMap(at + offset, kPage, offset, handle, 0));
    if (below(2) == 0) {
      CUmemGenericAllocationHandle again;
      OK(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at)));
      OK(cuMemRelease(again));
    }
    OK(cuMemRelease(handle));
    held_.push_back({What::mapping, at, bytes});
  }

  /// Some tiles, some of them mapped twice or unmapped again: the array's end lets the others go.
  void map_tiles(CUarray array) {
    const CUmemGenericAllocationHandle handle = create_handle(kPage);
    CUarrayMapInfo tiles[4] = {};
    for (unsigned i = 0; i < 4; ++i) {
      tiles[i].resourceType = CU_RESOURCE_TYPE_ARRAY;
      tiles[i].resource.array = array;
      tiles[i].subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
      tiles[i].subresource.sparseLevel.offsetX = static_cast<unsigned>(128 * below(3));
      tiles[i].memOperationType = i == 3 ? CU_MEM_OPERATION_TYPE_UNMAP : CU_MEM_OPERATION_TYPE_MAP;
      tiles[i].memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
      tiles[i].memHandle.memHandle = handle;
    }
    OK(cuMemMapArrayAsync(tiles, 4, nullptr));
    OK(cuMemRelease(handle));
  }

  /// What hands out nothing, and takes memory or says where the next is taken from.
  void take_unasked() {
    void* green;
    CUmodule module;
    CUfunction function;
    switch (below(5)) {
      case 0:
        OK(cuDeviceSetMemPool(device_, g_pools[device_][below(kPools)]));
        return;
      case 1:
        return run_graph();
      case 2:
        OK(create_green_context(&green, nullptr, device_, 1));
        return keep(What::green, reinterpret_cast<uint64_t>(green));
      case 3:
        OK(cuModuleLoadData(&module, "image"));
        OK(cuModuleGetFunction(&function, module, "plain"));
        OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
        held_.push_back(
            {What::module, reinterpret_cast<uint64_t>(module), static_cast<uint64_t>(device_)});
        return;
      default:
        OK(cuCtxSynchronize());
        return;
    }
  }

  /// A captured allocation is an address; its memory is the graph's, from the first launch on.
  void run_graph() {
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr at;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cuMemAllocAsync(&at, size(), stream));
    OK(cuMemFreeAsync(at, stream));
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    if (below(2) == 0) OK(cuDeviceGraphMemTrim(device_));
    OK(cuStreamDestroy(stream));
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
      case What::mapping:
        OK(cuMemUnmap(held.value, held.extra));
        OK(cuMemAddressFree(held.value, held.extra));
        break;
      case What::green:
        OK(destroy_green_context(reinterpret_cast<void*>(held.value)));
        break;
      case What::module:  // out of the context that it was loaded into
        OK(cuCtxSetCurrent(contexts_[held.extra]));
        OK(cuModuleUnload(reinterpret_cast<CUmodule>(held.value)));
        break;
    }
  }

  std::mt19937_64 random_;
  CUcontext* contexts_;
  int device_ = 0;
  std::vector<Held> held_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto seed = static_cast<unsigned>(argc > 1 ? atoi(argv[1]) : 1);
  g_in_turns = argc <= 2 || strcmp(argv[2], "free") != 0;
  CUcontext contexts[kDevices];
  for (int device = 0; device < kDevices; ++device) {
    contexts[device] = use_device(device);
    OK(cuDeviceGetDefaultMemPool(&g_pools[device][0], device));
    CUmemPoolProps properties{};
    properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
    for (int i = 1; i < kPools; ++i) OK(cuMemPoolCreate(&g_pools[device][i], &properties));
  }
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] { Client(seed * 100 + i, contexts).run(); });
  }
  for (std::thread& thread : threads) thread.join();
  return finish();
}
