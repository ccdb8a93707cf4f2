/* Allocates on top of as many frames of its own as it is told to: deep_stack FRAMES */
#include <stdlib.h>

static void *volatile block;

__attribute__((noinline)) static int descend(int frames) {
  if (frames == 0) {
    block = malloc(424242);
    return block != NULL;
  }
  int done = descend(frames - 1);
  __asm__ volatile("" : "+r"(done));  // so that it is no loop
  return done;
}

int main(int argc, char **argv) {
  return argc == 2 && descend(atoi(argv[1])) ? 0 : 1;
}
