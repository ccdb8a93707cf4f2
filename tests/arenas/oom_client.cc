// Programs that run out of memory, each for a reason of its own, over the simulated driver and the
// stand-ins for PyTorch and ONNX Runtime. What was staged is known, so check_oom.py can hold what
// gpupeak says against it.
//   oom_client CASE END TORCH ORT
// END: exit (the program goes on, exit code 0), abort, kill (SIGKILL).
#include <cuda.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "check.h"
#include "fake_c10_cuda.h"
#include "fake_ort_arena.h"
#include "gpupeak/gpupeak.h"

namespace {

constexpr uint64_t kMiB = 1 << 20;
const char *g_torch_path, *g_ort_path;

void use_device() {
  CUcontext context;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

CUdeviceptr take(uint64_t bytes) {
  CUdeviceptr at = 0;
  return cuMemAlloc(&at, bytes) == CUDA_SUCCESS ? at : 0;
}

/// The request that must fail.
__attribute__((noinline)) void ask(uint64_t bytes) {
  CHECK(take(bytes) == 0);
}

__attribute__((noinline)) void load_weights(unsigned count, uint64_t bytes) {
  for (unsigned i = 0; i < count; ++i) CHECK(take(bytes) != 0);
}

// The driver refuses.

void larger_than_card() {
  use_device();
  load_weights(1, 100 * kMiB);
  ask(2048 * kMiB);
}

void full() {
  use_device();
  load_weights(9, 100 * kMiB);
  ask(200 * kMiB);
}

void other_process() {
  use_device();
  load_weights(1, 100 * kMiB);
  ask(400 * kMiB);
}

__attribute__((noinline)) CUdeviceptr keep_history(uint64_t bytes) {
  return take(bytes);
}

/// Each step keeps 20 MiB, and uses more that it gives back.
void grow() {
  use_device();
  load_weights(1, 100 * kMiB);
  for (unsigned step = 0;; ++step) {
    const gpupeak::Phase phase("step");
    const CUdeviceptr activations = take(30 * kMiB);
    const bool fits = activations != 0 && keep_history(20 * kMiB) != 0;
    if (!fits) return;
    CHECK(cuMemFree(activations) == CUDA_SUCCESS && step < 1000);
  }
}

void small_blocks() {
  use_device();
  load_weights(400, kMiB + 100 * 1024);  // a page of 2 MiB each
  ask(300 * kMiB);
}

/// Half of each of the arena's chunks is in use.
void use_driver_pool() {
  use_device();
  std::vector<CUdeviceptr> blocks(60);
  for (CUdeviceptr& at : blocks) CHECK(cuMemAllocAsync(&at, 15 * kMiB, nullptr) == CUDA_SUCCESS);
  for (size_t i = 0; i < blocks.size(); i += 2)
    CHECK(cuMemFreeAsync(blocks[i], nullptr) == CUDA_SUCCESS);
}

void driver_pool_fragmented() {
  use_driver_pool();
  CUdeviceptr at = 0;
  CHECK(cuMemAllocAsync(&at, 300 * kMiB, nullptr) == CUDA_ERROR_OUT_OF_MEMORY);
}

void past_driver_pool() {
  use_driver_pool();
  ask(300 * kMiB);
}

/// FAKE_CUDA_FAIL refuses what there is room for.
void refused_for_nothing() {
  use_device();
  load_weights(1, 100 * kMiB);
  ask(50 * kMiB);
}

void pinned() {
  use_device();
  load_weights(1, 100 * kMiB);
  void* at = nullptr;
  CHECK(cuMemHostAlloc(&at, 50 * kMiB, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

void addresses() {
  use_device();
  load_weights(1, 100 * kMiB);
  CUdeviceptr at = 0;
  CHECK(cuMemAddressReserve(&at, 50 * kMiB, 0, 0, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

/// There is no room for the context itself.
void context() {
  CUcontext context;
  CHECK(cuInit(0) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_OUT_OF_MEMORY);
}

/// Nor for code.
void code() {
  use_device();
  load_weights(1, 620 * kMiB);
  CUmodule module;
  CHECK(cuModuleLoadData(&module, "code") == CUDA_ERROR_OUT_OF_MEMORY);
}

// PyTorch's arena refuses.

const FakeTorch* torch(bool expandable = false) {
  void* const library = dlopen(g_torch_path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != nullptr);
  const auto* table = reinterpret_cast<const FakeTorch* (*)()>(dlsym(library, "fake_torch"))();
  table->init(expandable, [](int, const FakeTorchLedger&) {});
  return table;
}

/// Half of each segment stays in use.
__attribute__((noinline)) void fragment(const FakeTorch* torch, unsigned segments, size_t half) {
  std::vector<void*> blocks;
  for (unsigned i = 0; i < 2 * segments; ++i) {
    blocks.push_back(torch->give(0, 0, half));
    CHECK(blocks.back() != nullptr);
  }
  for (size_t i = 0; i < blocks.size(); i += 2) torch->take(0, blocks[i]);
}

void torch_fragmented() {
  const FakeTorch* const allocator = torch();
  fragment(allocator, 45, 10 * kMiB - 512);  // from 10 MiB on each would have a segment of its own
  CHECK(allocator->give(0, 0, 300 * kMiB) == nullptr);
}

void torch_expandable_fragmented() {
  const FakeTorch* const allocator = torch(true);
  fragment(allocator, 45, 10 * kMiB);
  CHECK(allocator->give(0, 0, 300 * kMiB) == nullptr);
}

void reach_limit(bool expandable) {
  const FakeTorch* const allocator = torch(expandable);
  allocator->limit(500 * kMiB);
  CHECK(allocator->give(0, 0, 300 * kMiB) != nullptr);
  CHECK(allocator->give(0, 0, 300 * kMiB) == nullptr);
}
void torch_limit() {
  reach_limit(false);
}
void torch_limit_expandable() {
  reach_limit(true);
}

/// One piece of 598 MiB is idle in an arena that others do not share.
void leave_idle_elsewhere(const FakeTorch* allocator) {
  void* const block = allocator->give(0, 1, 600 * kMiB);
  CHECK(block != nullptr);
  allocator->take(0, block);
  CHECK(allocator->give(0, 1, 2 * kMiB) != nullptr);
}

void torch_set_apart() {
  const FakeTorch* const allocator = torch();
  leave_idle_elsewhere(allocator);
  CHECK(allocator->give(0, 0, 500 * kMiB) == nullptr);
}

void torch_graph() {
  use_device();
  const FakeTorch* const allocator = torch();
  CUstream stream;
  CUgraph graph;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_RELAXED) == CUDA_SUCCESS);
  leave_idle_elsewhere(allocator);
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CHECK(allocator->give(0, 0, 40 * kMiB) != nullptr);
  CHECK(allocator->give(0, 0, 450 * kMiB) == nullptr);
}

__attribute__((noinline)) void* append_loss(const FakeTorch* allocator) {
  return allocator->give(0, 0, 26 * kMiB);
}

void torch_grow() {
  const FakeTorch* const allocator = torch();
  CHECK(allocator->give(0, 0, 200 * kMiB) != nullptr);
  for (unsigned step = 0;; ++step) {
    const gpupeak::Phase phase("iteration");
    void* const activations = allocator->give(0, 0, 35 * kMiB);
    if (activations == nullptr || append_loss(allocator) == nullptr) return;
    allocator->take(0, activations);
    CHECK(step < 1000);
  }
}

void torch_others() {
  const FakeTorch* const allocator = torch();
  CHECK(allocator->give(0, 0, 100 * kMiB) != nullptr);
  CHECK(allocator->give(0, 0, 400 * kMiB) == nullptr);
}

void torch_larger_than_card() {
  const FakeTorch* const allocator = torch();
  CHECK(allocator->give(0, 0, 100 * kMiB) != nullptr);
  CHECK(allocator->give(0, 0, 2048 * kMiB) == nullptr);
}

void torch_full() {
  const FakeTorch* const allocator = torch();
  for (int i = 0; i < 9; ++i) CHECK(allocator->give(0, 0, 100 * kMiB) != nullptr);
  CHECK(allocator->give(0, 0, 200 * kMiB) == nullptr);
}

/// cuBLAS and its kin ask the driver, whatever PyTorch's arena has idle.
void workspace() {
  const FakeTorch* const allocator = torch();
  void* const block = allocator->give(0, 0, 600 * kMiB);
  allocator->take(0, block);
  use_device();
  ask(500 * kMiB);
}

/// Asks a hundred times, each time for more than there is: the last one is what counts.
void many() {
  const FakeTorch* const allocator = torch();
  void* const block = allocator->give(0, 0, 600 * kMiB);
  allocator->take(0, block);
  use_device();
  for (int i = 0; i < 1200; ++i) ask(500 * kMiB + static_cast<uint64_t>(i));
}

/// Others' and idle memory: each of them is too little alone.
void together() {
  const FakeTorch* const allocator = torch();
  fragment(allocator, 10, 10 * kMiB - 512);  // 100 MiB of 200 are idle
  load_weights(1, 100 * kMiB);
  ask(800 * kMiB);
}

// ONNX Runtime's arena refuses.

const FakeOrt* ort() {
  void* const library = dlopen(g_ort_path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) fprintf(stderr, "%s\n", dlerror());
  CHECK(library != nullptr);
  struct ApiBase {
    const void* (*get_api)(uint32_t);
    const char* (*get_version)();
  };
  const auto get_base = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  CHECK(get_base()->get_api(15) != nullptr);
  return reinterpret_cast<const FakeOrt* (*)()>(dlsym(library, "fake_ort"))();
}

void must_refuse(const FakeOrt* table, void* arena, uint64_t bytes) {
  bool refused = false;
  try {
    refused = table->alloc_on_stream(arena, bytes) == nullptr;
  } catch (const std::exception&) {
    refused = true;
  }
  CHECK(refused);
}

void ort_limit() {
  const FakeOrt* const table = ort();
  void* const arena = table->make(true, 256 * static_cast<int64_t>(kMiB));
  CHECK(table->alloc_on_stream(arena, 100 * kMiB) != nullptr);
  must_refuse(table, arena, 200 * kMiB);
}

void ort_fragmented() {
  const FakeOrt* const table = ort();
  void* const arena = table->make(true, INT64_MAX);
  std::vector<void*> blocks;
  for (int i = 0; i < 58; ++i) blocks.push_back(table->alloc_on_stream(arena, 8 * kMiB));
  for (size_t i = 0; i < blocks.size(); i += 2) table->free(arena, blocks[i]);
  load_weights(5, 100 * kMiB);
  must_refuse(table, arena, 200 * kMiB);
}

void ort_host_limit() {
  const FakeOrt* const table = ort();
  void* const arena = table->make(false, 64 * static_cast<int64_t>(kMiB));
  CHECK(table->alloc(arena, 20 * kMiB) != nullptr);
  bool refused = false;
  try {
    refused = table->alloc(arena, 60 * kMiB) == nullptr;
  } catch (const std::exception&) {
    refused = true;
  }
  CHECK(refused);
}

const std::map<std::string, std::function<void()>> kCases = {
    {"larger_than_card", larger_than_card},
    {"full", full},
    {"other_process", other_process},
    {"grow", grow},
    {"small_blocks", small_blocks},
    {"driver_pool_fragmented", driver_pool_fragmented},
    {"past_driver_pool", past_driver_pool},
    {"refused_for_nothing", refused_for_nothing},
    {"pinned", pinned},
    {"addresses", addresses},
    {"context", context},
    {"code", code},
    {"many", many},
    {"torch_fragmented", torch_fragmented},
    {"torch_expandable_fragmented", torch_expandable_fragmented},
    {"torch_limit", torch_limit},
    {"torch_limit_expandable", torch_limit_expandable},
    {"torch_set_apart", torch_set_apart},
    {"torch_graph", torch_graph},
    {"torch_grow", torch_grow},
    {"torch_others", torch_others},
    {"torch_larger_than_card", torch_larger_than_card},
    {"torch_full", torch_full},
    {"workspace", workspace},
    {"together", together},
    {"ort_limit", ort_limit},
    {"ort_fragmented", ort_fragmented},
    {"ort_host_limit", ort_host_limit},
};

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 5);
  g_torch_path = argv[3];
  g_ort_path = argv[4];
  const auto staged = kCases.find(argv[1]);
  CHECK(staged != kCases.end());
  staged->second();
  const std::string end = argv[2];
  if (end == "kill") kill(getpid(), SIGKILL);
  if (end == "abort") abort();
  return 0;
}
