// Programs whose steps keep memory, or do not. At each step's end a line of what the simulated
// driver's own ledger, or the stand-in for PyTorch's, says is live: check_growth.py compares.
//   growth_client CASE STEPS TRUTH TORCH
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "check.h"
#include "fake_c10_cuda.h"
#include "gpupeak/gpupeak.h"

extern "C" unsigned long long fake_cuda_ledger(int device, const char* kind, const char* which);

namespace {

constexpr uint64_t kMiB = 1 << 20;
FILE* g_truth;
const char* g_torch_path;
unsigned g_steps;
FakeTorchLedger g_pool;

CUdeviceptr take(uint64_t bytes) {
  CUdeviceptr at = 0;
  CHECK(cuMemAlloc(&at, bytes) == CUDA_SUCCESS);
  return at;
}
void give_back(CUdeviceptr at) {
  CHECK(cuMemFree(at) == CUDA_SUCCESS);
}
__attribute__((noinline)) CUdeviceptr keep(uint64_t bytes) {
  return take(bytes);
}

/// Each step has a forward and a backward part, and needs 20 MiB that it gives back.
void run_steps(const std::function<void(unsigned step)>& body) {
  for (unsigned step = 0; step < g_steps; ++step) {
    {
      const gpupeak::Phase phase("step");
      CUdeviceptr activations = 0;
      {
        const gpupeak::Phase forward("forward");
        activations = take(20 * kMiB);
      }
      const gpupeak::Phase backward("backward");
      body(step);
      give_back(activations);
    }
    fprintf(g_truth, "%llu %lu\n", fake_cuda_ledger(0, "linear", "live"), g_pool.in_use);
  }
}

std::vector<CUdeviceptr> g_kept;

void steady() {
  run_steps([](unsigned) { keep(3 * kMiB + 4096); });
}

/// What is made in the first step stays: an optimiser's state.
void once_then_steady() {
  run_steps([](unsigned step) {
    if (step == 0) keep(200 * kMiB);
    keep(512 * 1024);
  });
}

void nothing() {
  run_steps([](unsigned) {});
}

void only_once() {
  run_steps([](unsigned step) {
    if (step == 2) keep(300 * kMiB);
  });
}

/// A cache that is emptied when it is full.
void emptied() {
  run_steps([](unsigned step) {
    g_kept.push_back(keep(4 * kMiB));
    if (step % 10 != 9) return;
    for (const CUdeviceptr at : g_kept) give_back(at);
    g_kept.clear();
  });
}

/// A cache that is full after a third of the run.
void filled() {
  run_steps([](unsigned step) {
    if (step < g_steps / 3) keep(4 * kMiB);
  });
}

/// Another amount each time, of which only the latest stays.
void replaced() {
  run_steps([](unsigned step) {
    if (!g_kept.empty()) give_back(g_kept.back());
    g_kept = {keep((1 + step * 7919 % 40) * kMiB)};
  });
}

/// Of a size that leaves no rest of a segment, which a block would be given with it.
__attribute__((noinline)) void* append(const FakeTorch* torch) {
  return torch->give(0, 0, 4 * kMiB);
}

void torch_steady() {
  void* const library = dlopen(g_torch_path, RTLD_NOW | RTLD_LOCAL);
  CHECK(library != nullptr);
  const auto* torch = reinterpret_cast<const FakeTorch* (*)()>(dlsym(library, "fake_torch"))();
  torch->init(false, [](int device, const FakeTorchLedger& ledger) {
    if (device == 0) g_pool = ledger;
  });
  run_steps([&](unsigned) {
    void* const temporary = torch->give(0, 0, 4 * kMiB);
    CHECK(append(torch) != nullptr);
    torch->take(0, temporary);
  });
}

__attribute__((noinline)) void remember() {
  static void** last;  // each leads to the one before
  void** const block = static_cast<void**>(malloc(100'000));
  *block = last;
  last = block;
}

void host_steady() {
  run_steps([](unsigned) { remember(); });
}

const std::map<std::string, void (*)()> kCases = {
    {"steady", steady},           {"once_then_steady", once_then_steady},
    {"nothing", nothing},         {"only_once", only_once},
    {"emptied", emptied},         {"filled", filled},
    {"replaced", replaced},       {"torch_steady", torch_steady},
    {"host_steady", host_steady},
};

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 5);
  g_steps = static_cast<unsigned>(atoi(argv[2]));
  g_truth = fopen(argv[3], "w");
  g_torch_path = argv[4];
  CUcontext context;
  CHECK(cuInit(0) == CUDA_SUCCESS && cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(context) == CUDA_SUCCESS);
  const auto staged = kCases.find(argv[1]);
  CHECK(staged != kCases.end() && g_truth != nullptr);
  staged->second();
  fclose(g_truth);
  return 0;
}
