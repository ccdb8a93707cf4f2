/* Blocks of all sizes, from every function that makes them, and what the allocator says that each
 * holds. */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCKS 64

static void* held[BLOCKS];

static void hold(int i, void* block) {
  held[i] = block;
  printf("block %p %zu\n", block, malloc_usable_size(block));
}

static void drop(int i) {
  free(held[i]);
  held[i] = 0;
}

static void* aligned(size_t bytes) {
  void* block = 0;
  return posix_memalign(&block, 4096, bytes) == 0 ? block : 0;
}

/* Pages of the stack that nobody has written lie between here and main. */
static __attribute__((noinline)) void* below_unwritten_pages(size_t bytes) {
  volatile char pages[32768];
  pages[sizeof pages - 1] = 1;
  void* block = malloc(bytes);
  pages[sizeof pages - 1] = 0;
  return block;
}

int main(void) {
  static const size_t sizes[] = {0, 1, 24, 25, 100, 1032, 1033, 5000, 70000, 200000, 3000000};
  enum { kSizes = sizeof sizes / sizeof sizes[0] };
  hold(0, below_unwritten_pages(100));
  drop(0);
  for (int round = 0; round < 3; ++round) {
    for (int s = 0; s < kSizes; ++s) {
      hold(0, malloc(sizes[s]));
      hold(1, calloc(1, sizes[s]));
      hold(2, aligned(sizes[s]));
      hold(3, malloc(7));
      hold(3, realloc(held[3], sizes[s] + 1));
      for (int i = 4; i < BLOCKS; ++i) hold(i, malloc(sizes[s] % 4000 + (size_t)i * 24));
      for (int i = 0; i < BLOCKS; i += 2) drop(i); /* neighbours that are joined, and taken again */
      for (int i = 4; i < BLOCKS; i += 2) hold(i, malloc((size_t)i * 100));
      for (int i = 1; i < BLOCKS; ++i) {
        if (held[i]) drop(i);
      }
    }
  }
  return 0;
}
