/* The log's room is short for a moment: the file size limit that the program was started with is reached, then lifted. What the log
 * has is freed meanwhile, or not.
 *
 * usage: room_again [freed] */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static void allocate(int count) {
  for (int i = 0; i < count; ++i) {
    void* block = malloc(100 + i % 900);
    __asm__ volatile("" ::"r"(block) : "memory");
    free(block);
  }
}

int main(int count, char** arguments) {
  (void)arguments;
  char* before = malloc(8 << 20);
  memset(before, 1, 8 << 20);
  allocate(400000);
  if (count > 1) free(before);
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_FSIZE, &limit);
  const struct timespec a_while = {1, 200000000}; /* the library's longest rest is a second */
  nanosleep(&a_while, NULL);
  allocate(1000);
  char* block = malloc(5 << 20);
  memset(block, 1, 5 << 20);
  allocate(1000);
  free(block);
  if (count == 1) free(before);
  puts("ok");
  return 0;
}
