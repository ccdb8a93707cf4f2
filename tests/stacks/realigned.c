// Allocates many times below a function that realigns its stack, as vectorized code does.
#include <alloca.h>
#include <stdlib.h>

static volatile int sink;

__attribute__((noinline)) static void allocate(int bytes) {
  void* volatile block = malloc((size_t)bytes);
  free(block);
}

__attribute__((noinline)) static void realigned(int i, int b, int c, int d, int e, int f, int g,
                                                int h) {
  _Alignas(64) volatile char room[64];
  volatile char* more = alloca((size_t)(i % 7 + 1) * 16);
  more[0] = room[i % 64] = 1;
  allocate(16 + i % 8);
  sink = room[0] + more[0] + b + c + d + e + f + g + h;
}

int main(void) {
  for (int i = 0; i < 10000; ++i) realigned(i, 1, 2, 3, 4, 5, 6, 7);
  return 0;
}
