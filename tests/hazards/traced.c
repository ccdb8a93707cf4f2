/* A program under glibc's own debugging allocator: a library that takes malloc's place by the
 * version that programs ask for, and not by default. Prints how many calls that one has seen. */
#include <mcheck.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  enum { kBlocks = 10 };
  void* blocks[kBlocks];
  mtrace();
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(100);
  for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  muntrace();
  FILE* trace = fopen(getenv("MALLOC_TRACE"), "r");
  if (trace == NULL) return 1;
  int lines = 0;
  for (int c; (c = fgetc(trace)) != EOF;) lines += c == '\n';
  fclose(trace);
  printf("%d lines\n", lines);
  return 0;
}
