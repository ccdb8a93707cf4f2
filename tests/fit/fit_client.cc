// Programs whose need of device memory is a function of a number: check_fit.py asks whether they
// fit, and runs them; check_sweep.py asks for the largest number. Ends with 3 where memory was not
// enough.
//   fit_client CASE NUMBER [TORCH | ARENA]
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "../arenas/check.h"
#include "../arenas/fake_c10_cuda.h"
#include "../arenas/fake_ort_arena.h"
#include "gpupeak/gpupeak.h"

extern "C" void fake_cuda_touch(unsigned long long at);

namespace {

constexpr uint64_t kKiB = 1 << 10, kMiB = 1 << 20;
constexpr int kOutOfMemory = 3;
const FakeTorch* g_torch;
const FakeOrt* g_ort;

void must(CUresult result) {
  if (result == CUDA_SUCCESS) return;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    puts("torch.OutOfMemoryError: CUDA out of memory.");
    exit(kOutOfMemory);
  }
  fprintf(stderr, "CUresult %d\n", result);
  exit(1);
}

CUdeviceptr take(uint64_t bytes) {
  CUdeviceptr at = 0;
  must(cuMemAlloc(&at, bytes));
  return at;
}
void give_back(CUdeviceptr at) {
  must(cuMemFree(at));
}

__attribute__((noinline)) CUdeviceptr weights() {
  const gpupeak::Tag tag("weights");
  return take(300 * kMiB);
}
__attribute__((noinline)) CUdeviceptr activations(uint64_t bytes) {
  const gpupeak::Tag tag("activations");
  return take(bytes);
}

void use_device() {
  must(cuInit(0));
  CUcontext context;
  must(cuDevicePrimaryCtxRetain(&context, 0));
  must(cuCtxSetCurrent(context));
}

CUfunction function(const char* name) {
  CUmodule module;
  must(cuModuleLoadData(&module, "image"));
  CUfunction function;
  must(cuModuleGetFunction(&function, module, name));
  return function;
}
void launch(CUfunction function) {
  must(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr));
}

/// Steps of the same size.
void line(uint64_t number) {
  weights();
  launch(function("plain"));
  for (int step = 0; step < 3; ++step) {
    const CUdeviceptr at = activations(number * 37 * kMiB);
    const CUdeviceptr other = take(11 * kMiB);
    give_back(other);
    give_back(at);
  }
}

/// On the host.
__attribute__((noinline)) void* host_buffer(uint64_t bytes) {
  void* const at = malloc(bytes);
  CHECK(at != nullptr);
  return at;
}
void host(uint64_t number) {
  weights();
  void* const kept = malloc(5 * kMiB + 1);
  for (int step = 0; step < 3; ++step) {
    void* const one = host_buffer(number * 100 * kKiB);
    void* const other = host_buffer(number * 10 * kMiB);
    free(one);
    free(other);
  }
  free(kept);
}

/// Attention: grows with the square.
void square(uint64_t number) {
  weights();
  launch(function("plain"));
  const CUdeviceptr at = activations(number * 20 * kMiB + number * number * 3 * kMiB);
  give_back(at);
}

/// No better than a line, but not on it.
void noisy(uint64_t number) {
  weights();
  give_back(activations(number * 37 * kMiB + number * 7919 % 13 * 9 * kMiB));
}

/// The most is taken early; code and local memory come later.
void late_code(uint64_t number) {
  const CUdeviceptr staging = take(number * 40 * kMiB);
  const CUdeviceptr kept = weights();
  give_back(staging);
  launch(function("local_4096"));
  for (int i = 0; i < 10; ++i) launch(function("plain"));
  give_back(activations(number * 38 * kMiB));
  give_back(kept);
}

/// Blocks that pages of 2 MiB do not hold without a rest.
void odd_sizes(uint64_t number) {
  std::vector<CUdeviceptr> blocks;
  for (uint64_t i = 0; i < number * 10; ++i) blocks.push_back(take(3 * kMiB + 5 * kKiB));
  for (uint64_t i = 0; i < number * 100; ++i) blocks.push_back(take(70 * kKiB));
  for (const CUdeviceptr at : blocks) give_back(at);
}

/// The driver's pools keep what is freed.
void driver_pool(uint64_t number) {
  CUmemoryPool pool;
  must(cuDeviceGetDefaultMemPool(&pool, 0));
  cuuint64_t threshold = UINT64_MAX;
  must(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
  CUstream stream;
  must(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  for (const uint64_t bytes : {number * 30 * kMiB, number * 45 * kMiB}) {
    CUdeviceptr at = 0;
    must(cuMemAllocAsync(&at, bytes, stream));
    must(cuMemFreeAsync(at, stream));
    must(cuStreamSynchronize(stream));
  }
  give_back(activations(number * 5 * kMiB));
}

/// A change that check_whatif.py really makes: GRADIENTS_TIMES, sizes being whole multiples of 2
/// KiB then, so that the pool's rounding hides none of them.
uint64_t changed(uint64_t bytes, bool are_gradients) {
  static const char* const times = getenv("GRADIENTS_TIMES");
  if (times == nullptr) return bytes;
  bytes = (bytes + 2 * kKiB - 1) / (2 * kKiB) * (2 * kKiB);
  return are_gradients ? static_cast<uint64_t>(static_cast<double>(bytes) * atof(times)) : bytes;
}

/// nullptr: a change leaves it out.
void* of_torch(uint64_t bytes, bool are_gradients = false) {
  const gpupeak::Tag tag(are_gradients ? "gradients" : "activations");
  bytes = changed(bytes, are_gradients);
  if (bytes == 0) return nullptr;
  void* const at = g_torch->give(0, 0, bytes);
  if (at != nullptr) return at;
  puts("torch.OutOfMemoryError: CUDA out of memory.");
  exit(kOutOfMemory);
}

/// What a first part leaves in the pool a second one cannot use all of.
void torch(uint64_t number) {
  weights();
  launch(function("plain"));
  std::vector<void*> blocks;
  for (uint64_t i = 0; i < number; ++i) blocks.push_back(of_torch((17 + i % 5) * kMiB));
  for (void* const at : blocks) g_torch->take(0, at);
  blocks.clear();
  for (uint64_t i = 0; i < number / 2; ++i) blocks.push_back(of_torch((33 + i % 3) * kMiB));
  // A library's workspace is outside of the pool.
  give_back(take(number * kMiB));
  for (void* const at : blocks) g_torch->take(0, at);
}

/// Most is reserved where little is in use: loading.
void torch_idle(uint64_t number) {
  std::vector<void*> blocks;
  for (uint64_t i = 0; i < 40; ++i) blocks.push_back(of_torch(20 * kMiB));
  for (void* const at : blocks) g_torch->take(0, at);
  blocks.clear();
  for (uint64_t i = 0; i < 40; ++i) blocks.push_back(of_torch((20 + number) * kMiB));
  launch(function("local_4096"));
  for (void* const at : blocks) g_torch->take(0, at);
}

/// A training that nobody wrote, another one for each number: parameters, steps forward and back
/// whose blocks are of all sizes, libraries' own blocks and code that comes late.
class RandomTraining {
 public:
  /// `scale`: sizes in sixteenths of what they are.
  explicit RandomTraining(uint64_t number, uint64_t scale = 16) : state_(number), scale_(scale) {}

  void run() {
    const uint64_t layers = 6 + below(25);
    for (uint64_t i = 0; i < layers; ++i) of_torch(size());
    std::vector<uint64_t> sizes(layers), workspaces(layers);
    const bool empties = below(8) == 0;
    for (int step = 0; step < 4; ++step) {
      // What one shape leaves idle is of little use for the next.
      const bool other_shape = step == 0 || below(2) == 0;
      for (uint64_t i = 0; other_shape && i < layers; ++i) {
        sizes[i] = size();
        workspaces[i] = below(3) == 0 ? 2 * size() : 0;
      }
      std::vector<void*> kept;
      for (uint64_t i = 0; i < layers; ++i) {
        if (workspaces[i] != 0) g_torch->take(0, of_torch(workspaces[i]));
        kept.push_back(of_torch(sizes[i]));
        if (step < 2) of_others();
      }
      for (uint64_t i = layers; i-- > 0;) {
        void* const gradient = of_torch(sizes[i] + (i % 3 == 0 ? 0 : 700 * kKiB), true);
        g_torch->take(0, kept[i]);
        if (step < 2) of_others();
        if (gradient != nullptr) g_torch->take(0, gradient);
      }
      if (empties && step == 0) g_torch->empty_cache(0);
      if (step == 0) of_torch(size());  // an optimizer's
    }
  }

  // For others whose programs nobody wrote.
  uint64_t below(uint64_t limit) {
    state_ = state_ * 6364136223846793005 + 1442695040888963407;
    return (state_ >> 33) % limit;
  }
  uint64_t size() { return std::max<uint64_t>(size_of(below(4)) * scale_ / 16, 1); }
  void of_others() {
    switch (below(16)) {
      case 0:
        launch(function(("late" + std::to_string(state_)).c_str()));
        break;
      case 1:
        give_back(take(1 + below(12 * kMiB)));
        break;
      case 2:
        take(1 + below(3 * kMiB));
        break;
      default:
        break;
    }
  }

 private:
  uint64_t size_of(uint64_t kind) {
    switch (kind) {
      case 0:
        return 1 + below(kMiB);
      case 1:
        return kMiB + below(9 * kMiB);
      case 2:
        return 2 * kMiB * (5 + below(20)) - 1100 * kKiB + below(1300 * kKiB);
      default:
        return kMiB * (5 + below(40));
    }
  }
  uint64_t state_, scale_;
};
void torch_random(uint64_t number) {
  RandomTraining(number).run();
}
/// One of them, whose blocks grow with the number.
void torch_train(uint64_t number) {
  RandomTraining(8, number).run();
}

/// What ONNX Runtime does of its arena: weights that are reserved or not, then runs, each with a
/// plan of its own; libraries' own blocks come late.
class RandomInference {
 public:
  explicit RandomInference(uint64_t number) : random_(number) {}

  void run() {
    arena_ = g_ort->make(true, INT64_MAX);
    const uint64_t layers = 12 + random_.below(20);
    std::vector<void*> weights;
    for (uint64_t i = 0; i < layers; ++i) weights.push_back(give(i % 4 == 3));
    for (int step = 0; step < 3; ++step) {
      std::vector<void*> kept;
      for (uint64_t i = 0; i < layers; ++i) {
        if (random_.below(3) == 0) g_ort->free(arena_, give(random_.below(2) == 0));
        kept.push_back(give(false));
        if (step == 0) random_.of_others();
        if (kept.size() > 4) {
          const auto any = static_cast<ptrdiff_t>(random_.below(kept.size()));
          g_ort->free(arena_, kept[any]);
          kept.erase(kept.begin() + any);
        }
      }
      for (void* const at : kept) g_ort->free(arena_, at);
    }
    for (void* const at : weights) g_ort->free(arena_, at);
    g_ort->destroy(arena_);
  }

 private:
  void* give(bool reserved) {
    const uint64_t bytes = random_.size() * (1 + random_.below(12));
    try {
      return reserved ? g_ort->reserve(arena_, bytes) : g_ort->alloc_on_stream(arena_, bytes);
    } catch (const std::bad_alloc&) {
      puts("Failed to allocate memory");
      exit(kOutOfMemory);
    }
  }
  RandomTraining random_;  // its numbers
  void* arena_ = nullptr;
};
void arena_random(uint64_t number) {
  RandomInference(number).run();
}
/// Two sessions, each with an arena.
void arena_twice(uint64_t number) {
  for (int i = 0; i < 2; ++i) {
    void* const arena = g_ort->make(true, INT64_MAX);
    g_ort->free(arena, g_ort->alloc(arena, number * kMiB));
  }
}

/// Two streams, each with blocks of its own.
void torch_streams(uint64_t number) {
  std::vector<std::pair<int, void*>> blocks;
  for (uint64_t i = 0; i < 3 * number; ++i) {
    const int stream = static_cast<int>(i % 2);
    void* const at = g_torch->give(0, stream, (1 + i * 7 % 40) * kMiB);
    if (at == nullptr) exit(kOutOfMemory);
    blocks.emplace_back(stream, at);
    if (i % 3 == 2) {
      g_torch->take(0, blocks.front().second);
      blocks.erase(blocks.begin());
    }
  }
}

/// Threads take and give back at the same time. What they have together depends on nothing else.
void threads(uint64_t number) {
  const auto work = [number] {
    use_device();
    const CUdeviceptr kept = take(number * 8 * kMiB);
    launch(function("plain"));
    give_back(kept);
  };
  std::vector<CUdeviceptr> kept;
  for (int i = 0; i < 4; ++i) kept.push_back(activations(number * 10 * kMiB));
  for (int i = 0; i < 4; ++i) std::thread(work).join();
  std::vector<std::thread> all;
  for (int i = 0; i < 2; ++i) {
    all.emplace_back([] {
      use_device();
      for (int round = 0; round < 30; ++round) give_back(take(64 * kKiB));
    });
  }
  for (std::thread& thread : all) thread.join();
  for (const CUdeviceptr at : kept) give_back(at);
}

/// Goes to the host where there is no room for it.
void managed(uint64_t number) {
  CUdeviceptr at;
  must(cuMemAllocManaged(&at, number * 10 * kMiB, CU_MEM_ATTACH_GLOBAL));
  fake_cuda_touch(at);
  weights();
  must(cuMemFree(at));
}

void killed(uint64_t number) {
  give_back(activations(number * 37 * kMiB));
  kill(getpid(), SIGKILL);
}
void fails(uint64_t number) {
  line(number);
  exit(7);
}
/// Goes on with less where it does not get what it asks for.
void adapts(uint64_t number) {
  weights();
  CUdeviceptr at = 0;
  if (cuMemAlloc(&at, number << 40) != CUDA_SUCCESS) at = take(number * 10 * kMiB);
  give_back(at);
}
void fails_at_3(uint64_t number) {
  if (number == 3) exit(5);
  line(number);
}
void no_gpu(uint64_t) {}

/// As programs do: gpupeak looks for the arenas when the library is asked for its table.
void use_arenas(void* library) {
  struct ApiBase {
    const void* (*get_api)(uint32_t);
    const char* (*get_version)();
  };
  const auto get_base = reinterpret_cast<const ApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  CHECK(get_base()->get_api(1) != nullptr);
  g_ort = reinterpret_cast<const FakeOrt* (*)()>(dlsym(library, "fake_ort"))();
}

struct Case {
  const char* name;
  void (*run)(uint64_t number);
  bool torch, expandable;
  bool arena = false;
};
const Case kCases[] = {{"line", line, false, false},
                       {"square", square, false, false},
                       {"host", host, false, false},
                       {"noisy", noisy, false, false},
                       {"late_code", late_code, false, false},
                       {"odd_sizes", odd_sizes, false, false},
                       {"driver_pool", driver_pool, false, false},
                       {"torch", torch, true, false},
                       {"torch_expandable", torch, true, true},
                       {"torch_idle", torch_idle, true, false},
                       {"torch_random", torch_random, true, false},
                       {"torch_train", torch_train, true, false},
                       {"torch_streams", torch_streams, true, false},
                       {"arena_random", arena_random, false, false, true},
                       {"arena_twice", arena_twice, false, false, true},
                       {"threads", threads, false, false},
                       {"managed", managed, false, false},
                       {"killed", killed, false, false},
                       {"fails", fails, false, false},
                       {"adapts", adapts, false, false},
                       {"fails_at_3", fails_at_3, false, false}};

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc >= 3);
  const uint64_t number = strtoull(argv[2], nullptr, 10);
  CHECK(number > 0);
  if (strcmp(argv[1], "no_gpu") == 0) return no_gpu(number), 0;
  for (const Case& one : kCases) {
    if (strcmp(argv[1], one.name) != 0) continue;
    void* library = nullptr;
    if (one.torch || one.arena) {
      CHECK(argc == 4);
      library = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
      CHECK(library != nullptr);
    }
    if (one.arena) use_arenas(library);
    if (one.torch) {
      g_torch = reinterpret_cast<const FakeTorch* (*)()>(dlsym(library, "fake_torch"))();
      g_torch->init(one.expandable || getenv("EXPANDABLE") != nullptr,
                    [](int, const FakeTorchLedger&) {});
    }
    use_device();
    one.run(number);
    puts("done");
    return 0;
  }
  CHECK(!"such a case");
}
