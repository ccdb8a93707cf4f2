// What tests/bench/last_use.py counts: the operations of a network, each of which takes a block of
// PyTorch's pool for its result, launches a kernel, and gives back what it has read. CALL is
// launch, block (comes and goes) or operation (both).
//
//   kernel(result, input, weight, 200 bytes by value)   28 words, three of them addresses
#include <string_view>
#include <vector>

#include "../arenas/fake_c10.h"
#include "../cuda/programs/client.h"

namespace {

constexpr uint64_t kLayers = 161;  // tensors of ResNet-50's parameters
constexpr c10::Device kDevice{1, 0};

struct Pool {
  uint64_t begin;
  uint64_t in_use = 0;

  void give(uint64_t at, uint64_t bytes) {
    in_use += bytes;
    report(at, static_cast<int64_t>(bytes));
  }
  void take(uint64_t at, uint64_t bytes) {
    in_use -= bytes;
    report(at, -static_cast<int64_t>(bytes));
  }
  void report(uint64_t at, int64_t bytes) const {
    c10::reportMemoryUsageToProfiler(reinterpret_cast<void*>(at), bytes, in_use, 256 * kMiB,
                                     kDevice);
  }
};

/// As many different sizes as a network has.
uint64_t bytes_of(uint64_t number) {
  return (number % 3 == 0 ? 2 * kMiB : 512) * (1 + number % 2);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: %s launch|block|operation CALLS\n", argv[0]);
    return 2;
  }
  const std::string_view what = argv[1];
  const long calls = atol(argv[2]);
  use_device(0);
  CUstream stream;
  CUmodule module;
  CUfunction function;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuModuleLoadData(&module, ""));
  OK(cuModuleGetFunction(&function, module, "layer_takes_8_8_8_200"));
  Pool pool{allocate(512 * kMiB)};
  uint64_t at = pool.begin;
  std::vector<uint64_t> weights, results;
  for (uint64_t i = 0; i < kLayers; ++i) {
    weights.push_back(at);
    pool.give(at, bytes_of(i));
    at += bytes_of(i);
  }
  for (uint64_t i = 0; i < 4; ++i) {
    results.push_back(at);
    at += bytes_of(i);
  }
  pool.give(results[0], bytes_of(0));
  uint64_t by_value[25] = {3, 224, 224, 1};
  uint64_t result = results[0], input = results[0], weight;
  void* parameters[] = {&result, &input, &weight, by_value};
  for (long i = 0; i < calls; ++i) {
    const auto number = static_cast<uint64_t>(i);
    weight = weights[number % kLayers];
    if (what != "launch") pool.give(results[(number + 1) % 4], bytes_of((number + 1) % 4));
    result = results[what == "launch" ? 0 : (number + 1) % 4];
    if (what != "block")
      OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr));
    if (what != "launch") pool.take(results[number % 4], bytes_of(number % 4));
    input = result;
  }
  return 0;
}
