/* One thread whose phases and marks have known contents; then, for each byte on standard input, one more block of
 * 4,096 bytes and an answer. The truth is written without the heap. */
#include <gpupeak/gpupeak.h>
#include <stdlib.h>
#include <unistd.h>

enum { kPhases = 200, kBlocks = 64 };

static void *volatile sink; /* no allocation may be optimised away */

static void *allocate(size_t bytes) {
  sink = malloc(bytes);
  return sink;
}

int main(void) {
  static void *kept[kPhases];
  for (int i = 0; i < kPhases; ++i) {
    char name[] = "p000";
    name[1] = (char)('0' + i / 100);
    name[2] = (char)('0' + i / 10 % 10);
    name[3] = (char)('0' + i % 10);
    void *before = allocate(11);
    gpupeak_phase_push(name);
    kept[i] = allocate(1000 + (size_t)i);
    free(allocate(700));
    gpupeak_mark(name);
    free(allocate(500));
    gpupeak_phase_pop();
    free(allocate(900));
    free(before);
  }
  static void *blocks[kBlocks];
  char step;
  for (int i = 0; i < kBlocks && read(0, &step, 1) == 1; ++i) {
    blocks[i] = allocate(4096);
    if (write(1, &step, 1) != 1) return 1;
  }
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  for (int i = 0; i < kPhases; ++i) free(kept[i]);
  return 0;
}
