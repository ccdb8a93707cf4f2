/* Blocks that one thread makes and another one frees, round after round; then some stay. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kRounds = 20, kBlocks = 8192, kKept = 2048 };

static void* blocks[kBlocks];

static void* free_all(void* from) {
  for (int i = *(int*)from; i < kBlocks; ++i) free(blocks[i]);
  return from;
}

int main(void) {
  unsigned long live = 0, kept = 0;
  for (int round = 0; round < kRounds; ++round) {
    live = kept = 0;
    for (int i = 0; i < kBlocks; ++i) {
      const unsigned long bytes = 1000 + (unsigned long)(i * 7919 % 6000);
      blocks[i] = malloc(bytes);
      if (!blocks[i]) return 1;
      live += bytes;
      if (i < kKept) kept += bytes;
    }
    int from = round == kRounds - 1 ? kKept : 0;
    pthread_t other;
    if (pthread_create(&other, 0, free_all, &from)) return 2;
    pthread_join(other, 0);
  }
  printf("truth about_peak %lu\ntruth about_live %lu\n", live, kept);
  return 0;
}
