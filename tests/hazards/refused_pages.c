/* Allocates, with two threads, before and after the line that it is sent, when its log's file system has no room. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

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

int main(void) {
  allocate_in_two(300000);
  puts("no room");
  fflush(stdout);
  char line[16];
  if (fgets(line, sizeof line, stdin) == NULL) exit(1);
  allocate_in_two(300000);
  return 3;
}
