// A program over a real ONNX Runtime, of any release from 1.15 on: runs a model, takes and gives
// back blocks of an arena itself, and notes after each step what the arena's own statistics say
// (from 1.23 on, where the C API has them).
//   ort_stats_client LIBRARY MODEL TRUTH arena|no_arena|cuda [KEY=VALUE …]
// arena: the CPU's; cuda: device 0's, with options of the provider. The model takes one tensor of
// floats, 1 x 3 x 224 x 224.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "gpupeak/gpupeak.h"

namespace {

using Word = uintptr_t;
struct ApiBase {
  const Word* (*get_api)(uint32_t version);
  const char* (*get_version)();
};
/// OrtAllocator, which grows at its end.
struct Allocator {
  uint32_t version;
  Word alloc, free, info, reserve;
  void* (*get_stats)(const Allocator*, void** pairs);
};

const Word* g_api;
FILE* g_truth;

/// By the slot of OrtApi, which is only ever appended to.
template <typename... Arguments>
void call(size_t slot, Arguments... arguments) {
  void* const status = reinterpret_cast<void* (*)(Arguments...)>(g_api[slot])(arguments...);
  if (status == nullptr) return;
  const char* text = reinterpret_cast<const char* (*)(void*)>(g_api[2])(status);
  fprintf(stderr, "slot %zu: %s\n", slot, text);
  exit(1);
}
bool is_refused(size_t slot, Allocator* allocator, size_t bytes, void** at) {
  void* const status =
      reinterpret_cast<void* (*)(Allocator*, size_t, void**)>(g_api[slot])(allocator, bytes, at);
  if (status != nullptr) reinterpret_cast<void (*)(void*)>(g_api[93])(status);
  return status != nullptr;
}
void release(size_t slot, void* object) {
  reinterpret_cast<void (*)(void*)>(g_api[slot])(object);
}

enum Slot : size_t {
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kDisableCpuMemArena = 19,
  kSetIntraOpNumThreads = 24,
  kSessionGetInputName = 36,
  kSessionGetOutputName = 37,
  kCreateTensorWithData = 49,
  kGetTensorMutableData = 51,
  kCreateMemoryInfo = 68,
  kAllocatorAlloc = 75,
  kAllocatorFree = 76,
  kGetAllocatorWithDefaultOptions = 78,
  kReleaseEnv = 92,
  kReleaseMemoryInfo = 94,
  kReleaseSession = 95,
  kReleaseValue = 96,
  kReleaseSessionOptions = 100,
  kCreateAllocator = 131,
  kReleaseAllocator = 132,
  kAppendCuda = 204,
  kCreateCudaOptions = 205,
  kUpdateCudaOptions = 206,
  kReleaseCudaOptions = 208,
  kGetKeyValue = 297,
  kReleaseKeyValuePairs = 300,
};

void note(const char* name, const Allocator* allocator) {
  gpupeak_mark(name);
  if (allocator == nullptr) return;
  void* pairs = nullptr;
  if (allocator->get_stats(allocator, &pairs) != nullptr || pairs == nullptr) exit(2);
  const auto value = [&](const char* key) {
    const char* text =
        reinterpret_cast<const char* (*)(void*, const char*)>(g_api[kGetKeyValue])(pairs, key);
    return text != nullptr ? strtoull(text, nullptr, 10) : 0;
  };
  fprintf(g_truth, "mark %s %llu %llu %llu\n", name, value("InUse"), value("TotalAllocated"),
          value("MaxInUse"));
  release(kReleaseKeyValuePairs, pairs);
}

struct Model {
  void *session = nullptr, *info = nullptr;
  char *input = nullptr, *output = nullptr;

  /// The first value that comes out.
  double run() const {
    std::vector<float> data(3 * 224 * 224, 0.5F);
    const int64_t shape[] = {1, 3, 224, 224};
    void *in = nullptr, *out = nullptr;
    call(kCreateTensorWithData, info, static_cast<void*>(data.data()), data.size() * sizeof(float),
         &shape[0], size_t{4}, 1, &in);
    call(kRun, session, nullptr, &input, &in, size_t{1}, &output, size_t{1}, &out);
    float* values = nullptr;
    call(kGetTensorMutableData, out, &values);
    const auto first = static_cast<double>(values[0]);
    release(kReleaseValue, out);
    release(kReleaseValue, in);
    return first;
  }
};

void append_cuda(void* options, char** given, int count) {
  std::vector<std::string> words;
  for (int i = 0; i < count; ++i) {
    const std::string word = given[i];
    words.push_back(word.substr(0, word.find('=')));
    words.push_back(word.substr(word.find('=') + 1));
  }
  std::vector<const char*> keys, values;
  for (size_t i = 0; i < words.size(); i += 2) {
    keys.push_back(words[i].c_str());
    values.push_back(words[i + 1].c_str());
  }
  void* cuda = nullptr;
  call(kCreateCudaOptions, &cuda);
  call(kUpdateCudaOptions, cuda, keys.data(), values.data(), keys.size());
  call(kAppendCuda, options, cuda);
  release(kReleaseCudaOptions, cuda);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 2;
  }
  const auto* base = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"))();
  g_api = base->get_api(15);
  g_truth = fopen(argv[3], "w");
  const bool has_arena = strcmp(argv[4], "no_arena") != 0;
  const bool on_gpu = strcmp(argv[4], "cuda") == 0;
  const bool has_stats = has_arena && atoi(base->get_version() + 2) >= 23;
  void *env = nullptr, *options = nullptr, *arena_info = nullptr;
  call(kCreateEnv, 3, "stats", &env);
  call(kCreateSessionOptions, &options);
  call(kSetIntraOpNumThreads, options, 2);
  if (!has_arena) call(kDisableCpuMemArena, options);
  if (on_gpu) append_cuda(options, argv + 5, argc - 5);
  Model model;
  call(kCreateSession, env, argv[2], options, &model.session);
  call(kCreateMemoryInfo, on_gpu ? "Cuda" : "Cpu", 1, 0, 0, &arena_info);
  call(kCreateMemoryInfo, "Cpu", 0, 0, 0, &model.info);
  Allocator *arena = nullptr, *plain = nullptr;
  call(kGetAllocatorWithDefaultOptions, &plain);
  if (has_arena) {
    call(kCreateAllocator, model.session, arena_info, &arena);
  } else {
    arena = plain;
  }
  call(kSessionGetInputName, model.session, size_t{0}, plain, &model.input);
  call(kSessionGetOutputName, model.session, size_t{0}, plain, &model.output);
  const Allocator* const told = has_stats ? arena : nullptr;
  note("created", told);
  const char* const steps[] = {"run0", "run1", "run2"};
  for (const char* step : steps) {
    printf("%.6f\n", model.run());
    note(step, told);
  }
  std::vector<void*> blocks;
  for (size_t i = 0; i < 100; ++i) {
    void* at = nullptr;
    call(kAllocatorAlloc, arena, 1 + i * i * 977 % 3'000'000, &at);
    blocks.push_back(at);
    if (i % 3 == 0) {
      call(kAllocatorFree, arena, blocks[i / 2]);
      blocks[i / 2] = nullptr;
    }
  }
  note("blocks", told);
  void* none = nullptr;
  printf("refused %d\n", is_refused(kAllocatorAlloc, arena, size_t{1} << 50, &none));
  for (void* at : blocks) call(kAllocatorFree, arena, at);
  note("given_back", told);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&model] {
      for (int round = 0; round < 3; ++round) model.run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  note("threads", told);
  call(kAllocatorFree, plain, static_cast<void*>(model.input));
  call(kAllocatorFree, plain, static_cast<void*>(model.output));
  if (has_arena) release(kReleaseAllocator, arena);
  release(kReleaseSession, model.session);
  release(kReleaseMemoryInfo, model.info);
  release(kReleaseMemoryInfo, arena_info);
  release(kReleaseSessionOptions, options);
  release(kReleaseEnv, env);
  fclose(g_truth);
  return 0;
}
