// Loads, uses and unloads plugins in turns that come to lie at the same addresses, with other
// frames there: whoever remembers how to leave the frame of one goes astray in the other.
// Arguments: the plugins.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace {

constexpr int kRounds = 50;
volatile int g_sink;

__attribute__((noinline)) void allocate() {
  free(realloc(malloc(24), 100));
  g_sink = 1;
}
/// Other functions inside of the plugin's frame each time, so that its rule is asked for again.
void allocate_further_in() {
  allocate();
  g_sink = 2;
}
/// The plugin's frame in the middle of a deep stack.
__attribute__((noinline)) void allocate_at(int depth) {
  if (depth > 0)
    allocate_at(depth - 1);
  else
    allocate();
  g_sink = depth;
}
void allocate_deep() {
  allocate_at(80);
}

/// Where the plugin's function was.
void* use(const char* path) {
  void* plugin = dlopen(path, RTLD_NOW);
  if (plugin == nullptr) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  void* symbol = dlsym(plugin, "plugin_call");
  const auto call = reinterpret_cast<void (*)(void (*)())>(symbol);
  for (int i = 0; i < 5; ++i) {
    call(allocate);
    call(allocate_further_in);
    call(allocate_deep);
  }
  std::thread([call] { call(allocate_further_in); }).join();
  dlclose(plugin);
  return symbol;
}

}  // namespace

int main(int argc, char** argv) {
  const void* last = nullptr;
  int same = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 1; i < argc; ++i) {
      const void* at = use(argv[i]);
      same += at == last;
      last = at;
    }
  }
  printf("%d of %d at the place of the one before\n", same, kRounds * (argc - 1));
  return same > kRounds ? 0 : 1;  // else nothing was tried
}
