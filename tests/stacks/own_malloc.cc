// A program with its own malloc, so that the loader's frees reach nobody else, in which plugins of
// the same code come to lie at the same addresses one after the other, loaded and unloaded where no
// hook of dlclose sees it. Each maps memory from the same stack: 1 MiB for the first plugin, 2 MiB
// for the second … Arguments: the manager, the plugins.
#include <dlfcn.h>
#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <set>

namespace {

constexpr int kRounds = 5, kCalls = 4;
alignas(16) unsigned char g_memory[32 << 20];
size_t g_used = 0;
size_t g_bytes = 0;
std::set<const void*> g_places;
volatile int g_sink;

void map_some() {
  g_sink = mmap(nullptr, g_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
           MAP_FAILED;
}

void use(void* plugin_call) {
  const auto call = reinterpret_cast<void (*)(void (*)())>(plugin_call);
  for (int i = 0; i < kCalls; ++i) call(map_some);
  g_places.insert(plugin_call);
}

}  // namespace

extern "C" {
void* malloc(size_t bytes) {
  const size_t begin = g_used + 16, end = begin + (bytes + 15) / 16 * 16;
  if (end > sizeof g_memory) return nullptr;
  memcpy(g_memory + g_used, &bytes, sizeof bytes);
  g_used = end;
  return g_memory + begin;
}
void free(void*) {}
void* calloc(size_t count, size_t bytes) {
  return malloc(count * bytes);  // nothing is given twice
}
void* realloc(void* block, size_t bytes) {
  void* const moved = malloc(bytes);
  size_t before = 0;
  if (block == nullptr || moved == nullptr) return moved;
  memcpy(&before, static_cast<unsigned char*>(block) - 16, sizeof before);
  memcpy(moved, block, before < bytes ? before : bytes);
  return moved;
}
}

int main(int argc, char** argv) {
  void* const manager = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
  if (manager == nullptr) return 1;
  const auto manage =
      reinterpret_cast<int (*)(const char*, void (*)(void*))>(dlsym(manager, "manage"));
  int failed = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 2; i < argc; ++i) {
      g_bytes = static_cast<size_t>(i - 1) << 20;
      failed += manage(argv[i], use) != 0;
    }
  }
  printf("%zu places\n", g_places.size());
  return failed == 0 && g_places.size() == 1 ? 0 : 1;  // else nothing was tried
}
