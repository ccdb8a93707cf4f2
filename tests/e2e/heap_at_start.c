/* A library whose initialiser takes eighty thousand blocks, as cuBLAS's do. */
#include <stdlib.h>

enum { kBlocks = 80000 };
static void* blocks[kBlocks];

static __attribute__((noinline)) void take_at_start(void) {
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(16 + i % 100);
}

static __attribute__((constructor)) void start(void) {
  take_at_start();
}
