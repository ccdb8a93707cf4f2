/* Allocates, with two threads, between the lines that it is sent: at the first its log's file system has no room, at the second it
 * has room again. Where room is short only for a moment, nothing of its peak may be lost. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void* allocate(void* count) {
  for (long i = 0; i < (long)count; ++i) {
    void* block = malloc(100 + i % 900);
    __asm__ volatile("" ::"r"(block) : "memory");
    free(block);
  }
  return NULL;
}

static void allocate_in_two(long count) {
  pthread_t thread;
  pthread_create(&thread, NULL, allocate, (void*)count);
  allocate((void*)count);
  pthread_join(thread, NULL);
}

static void wait_for_line(const char* said) {
  puts(said);
  fflush(stdout);
  char line[16];
  if (fgets(line, sizeof line, stdin) == NULL) exit(1);
}

int main(void) {
  char* before = malloc(8 << 20);
  memset(before, 1, 8 << 20);
  allocate_in_two(300000);
  wait_for_line("no room");
  allocate_in_two(300000);
  wait_for_line("room");
  const struct timespec a_while = {1, 200000000}; /* the library's longest rest is a second */
  nanosleep(&a_while, NULL);
  allocate_in_two(100000);
  char* block = malloc(32 << 20);
  memset(block, 1, 32 << 20);
  allocate_in_two(1000);
  free(block);
  free(before);
  printf("truth heap_peak_at_least %d\n", 40 << 20);
  return 3;
}
