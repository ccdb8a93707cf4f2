// ggml's pool of scratch memory on the GPU, of a library as it is shipped (npm's @node-llama-cpp/linux-x64-cuda), used as its kernels do: blocks go back in
// the reverse order. After each step a mark and a line of what the pool's own members say.
//   g++ -std=c++20 -O2 -I preload/include ggml_pool.cc -o ggml_pool -ldl;  ggml_pool FOLDER/libggml-cuda.so TRUTH
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "gpupeak/gpupeak.h"

/// The class as ggml declares it. Not in a namespace without a name, where the compiler would know that nobody derives from it.
struct Pool {
  virtual ~Pool() = default;
  virtual void* alloc(size_t bytes, size_t* given) = 0;
  virtual void free(void* at, size_t bytes) = 0;
};

namespace {

/// ggml_cuda_pool_vmm's members.
struct Members {
  void* table;
  int device;
  uint64_t address;
  size_t used, size;
};
struct Block {
  void* at;
  size_t bytes;
};

FILE* g_truth;
unsigned g_step = 0;

void note(const Pool* pool) {
  const auto* const members = reinterpret_cast<const Members*>(pool);
  char name[32];
  snprintf(name, sizeof name, "s%u", g_step++);
  gpupeak_mark(name);
  fprintf(g_truth, "mark %s %zu %zu\n", name, members->used, members->size);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  void* const library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  // static std::unique_ptr<ggml_cuda_pool> ggml_backend_cuda_context::new_pool_for_device(int device, int stream)
  using NewPool = void (*)(Pool** made, int device, int stream);
  const auto new_pool = reinterpret_cast<NewPool>(dlsym(library, "_ZN25ggml_backend_cuda_context19new_pool_for_deviceEii"));
  if (new_pool == nullptr) return 1;
  // Kernels run where there is a context.
  void* const runtime = dlopen("libcudart.so.13", RTLD_NOW);
  const auto free_nothing = runtime == nullptr ? nullptr : reinterpret_cast<int (*)(void*)>(dlsym(runtime, "cudaFree"));
  if (free_nothing == nullptr || free_nothing(nullptr) != 0) return 1;
  Pool* pool = nullptr;
  new_pool(&pool, 0, 0);
  g_truth = fopen(argv[2], "w");
  if (g_truth == nullptr) return 1;
  setvbuf(g_truth, nullptr, _IOLBF, 1 << 16);
  unsigned state = 7;
  const auto random = [&](unsigned below) {
    state = state * 1664525 + 1013904223;
    return (state >> 8) % below;
  };
  std::vector<Block> blocks;
  for (int i = 0; i < 400; ++i) {
    if (random(5) < 3 || blocks.empty()) {
      size_t given = 0;
      void* const at = pool->alloc(random(4 << 20) + 1, &given);
      blocks.push_back({at, given});
    } else {
      pool->free(blocks.back().at, blocks.back().bytes);
      blocks.pop_back();
    }
    note(pool);
  }
  for (const Block& block : blocks) fprintf(g_truth, "block %lu %zu\n", reinterpret_cast<uint64_t>(block.at), block.bytes);
  gpupeak_mark("last");
  while (!blocks.empty()) {
    pool->free(blocks.back().at, blocks.back().bytes);
    blocks.pop_back();
  }
  delete pool;
  fclose(g_truth);
  printf("%u steps\n", g_step);
  return 0;
}
