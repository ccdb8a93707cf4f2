// Plugins that come to lie at the same addresses, with other frames there, are loaded and unloaded
// where no hook of dlclose sees it: by a manager that was opened with RTLD_DEEPBIND, and by libc's
// own iconv. Other threads allocate meanwhile. Arguments: the manager, the plugins.
#include <dlfcn.h>
#include <iconv.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <thread>

namespace {

constexpr int kRounds = 60;
volatile int g_sink;
std::atomic<bool> g_done{false};
std::set<const void*> g_places;

__attribute__((noinline)) void allocate() {
  free(realloc(malloc(24), 100));
  g_sink = 1;
}
__attribute__((noinline)) void allocate_at(int depth) {
  if (depth > 0)
    allocate_at(depth - 1);
  else
    allocate();
  g_sink = depth;
}

void use(void* plugin_call) {
  const auto call = reinterpret_cast<void (*)(void (*)())>(plugin_call);
  for (int i = 0; i < 5; ++i) call(allocate);
  g_places.insert(plugin_call);
}

/// Converters that allocate when they are opened; libc unloads those that were not used of late.
void convert() {
  for (const char* code : {"UTF-16", "UTF-7", "UTF-32", "ISO-2022-KR", "ISO_646.IRV:1991",
                           "UNICODE", "JOHAB", "EUC-TW"}) {
    const iconv_t converter = iconv_open(code, "UTF-8");
    if (converter == reinterpret_cast<iconv_t>(-1)) continue;
    char text[] = "text", out[64];
    char *from = text, *to = out;
    size_t left = strlen(text), room = sizeof out;
    iconv(converter, &from, &left, &to, &room);
    iconv_close(converter);
  }
}

}  // namespace

int main(int argc, char** argv) {
  void* const manager = dlopen(argv[1], RTLD_NOW | RTLD_DEEPBIND);
  if (manager == nullptr) return 1;
  const auto manage =
      reinterpret_cast<int (*)(const char*, void (*)(void*))>(dlsym(manager, "manage"));
  std::thread others[2];
  for (std::thread& other : others) {
    other = std::thread([] {
      for (int i = 0; !g_done; ++i) allocate_at(i % 50);
    });
  }
  int failed = 0;
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 2; i < argc; ++i) failed += manage(argv[i], use) != 0;
    convert();
  }
  g_done = true;
  for (std::thread& other : others) other.join();
  const int loads = kRounds * (argc - 2);
  printf("%d loads at %zu places\n", loads, g_places.size());
  return failed == 0 && g_places.size() * 4 < static_cast<size_t>(loads)
             ? 0
             : 1;  // else nothing was tried
}
