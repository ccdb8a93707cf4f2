/* Threads with the smallest stack that there may be, and locked memory. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
static void* work(void* argument) {
  for (int i = 0; i < 100; ++i) free(malloc(200));
  return argument;
}
int main(void) {
  mlockall(MCL_CURRENT);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN + 4096);
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, work, 0) != 0) return 1;
    pthread_join(thread, 0);
  }
  puts("done");
  return 0;
}
