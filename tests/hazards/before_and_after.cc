// Static initialisers that run before the preload's, handlers and destructors that run after it.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

__attribute__((constructor(101))) static void early() {
  free(malloc(100));
}
static std::vector<std::string>* g_never_freed =
    new std::vector<std::string>(100, std::string(50, 'x'));
struct Late {
  std::string text = std::string(1000, 'y');
  ~Late() { text += std::string(100000, 'z'); }
};
static Late g_late;
__attribute__((destructor(101))) static void last() {
  free(malloc(12345));
}

int main() {
  atexit([] { free(malloc(200)); });
  printf("done %zu\n", g_never_freed->size());
  return 5;
}
