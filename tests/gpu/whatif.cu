// A program whose memory can really be changed: whatif_cuda MODE. CHANGE (in the environment) is the change that is made.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

constexpr size_t kMiB = 1 << 20;
const char* g_change = "";

bool is_changed(const char* change) {
  return strcmp(g_change, change) == 0;
}
void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

bool g_async = false;
void* take(size_t bytes) {
  void* at = nullptr;
  check(g_async ? cudaMallocAsync(&at, bytes, nullptr) : cudaMalloc(&at, bytes));
  return at;
}
void give_back(void* at) {
  check(g_async ? cudaFreeAsync(at, nullptr) : cudaFree(at));
}

/// What lives through the run.
__attribute__((noinline)) std::vector<void*> make_weights() {
  std::vector<void*> all;
  for (int layer = 0; layer < 12; ++layer) all.push_back(take((8 + layer) * kMiB + 12'345));
  return all;
}
/// What grows with the batch.
__attribute__((noinline)) void make_activations(std::vector<void*>& all, int layer) {
  const size_t bytes = (40 + 3 * layer) * kMiB + 77;
  all.push_back(take(is_changed("half") ? bytes / 2 : bytes));
}
/// What nobody needs beyond its making.
__attribute__((noinline)) void* make_scratch() {
  if (is_changed("without")) return nullptr;
  return take(333 * kMiB);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  g_async = strcmp(argv[1], "async") == 0;
  if (const char* change = getenv("CHANGE")) g_change = change;
  std::vector<void*> weights = make_weights();
  void* scratch = make_scratch();
  std::vector<void*> activations;
  for (int layer = 0; layer < 12; ++layer) make_activations(activations, layer);
  for (void* at : activations) give_back(at);
  if (scratch != nullptr) give_back(scratch);
  for (void* at : weights) give_back(at);
  check(cudaDeviceSynchronize());
}
