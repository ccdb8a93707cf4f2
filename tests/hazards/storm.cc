// Allocates in two threads without end, until somebody kills it.
#include <cstdlib>
#include <thread>

static void storm(unsigned seed) {
  void* live[500] = {};
  for (;;) {
    seed = seed * 1664525u + 1013904223u;
    void*& block = live[(seed >> 8) % 500];
    free(block);
    block = malloc(seed % 5000);
  }
}

int main() {
  std::thread other(storm, 2u);
  storm(1u);
}
