/* The log's room is short for a moment: the file size limit that the program was started with is
 * reached, then lifted. What the log has is freed meanwhile, or not; or a thread begins meanwhile,
 * which goes on when there is room again.
 *
 * usage: room_again [freed|thread] */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static sem_t begun, room;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void allocate(int count) {
  for (int i = 0; i < count; ++i) {
    void* block = malloc(100 + i % 900);
    __asm__ volatile("" ::"r"(block) : "memory");
    free(block);
  }
}

static void* meanwhile(void* unused) {
  allocate(20000);
  sem_post(&begun);
  sem_wait(&room);
  allocate(20000);
  return unused;
}

int main(int count, char** arguments) {
  const int freed = count > 1 && strcmp(arguments[1], "freed") == 0;
  const int threaded = count > 1 && strcmp(arguments[1], "thread") == 0;
  const uint64_t began = now_ns();
  char* before = malloc(8 << 20);
  memset(before, 1, 8 << 20);
  allocate(threaded ? 800000 : 400000); /* a sample fills less */
  if (freed) free(before);
  pthread_t thread;
  sem_init(&begun, 0, 0);
  sem_init(&room, 0, 0);
  if (threaded) {
    pthread_create(&thread, NULL, meanwhile, NULL);
    sem_wait(&begun);
  }
  struct rlimit limit;
  getrlimit(RLIMIT_FSIZE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_FSIZE, &limit);
  /* Each of the library's rests is twice as long as the one before, a second at most: the last one
   * is no longer than all this took. */
  const uint64_t took = now_ns() - began, rest = took < 1000000000 ? took + 20000000 : 1020000000;
  const struct timespec a_while = {(time_t)(rest / 1000000000), (long)(rest % 1000000000)};
  nanosleep(&a_while, NULL);
  allocate(1000);
  char* block = malloc(5 << 20);
  memset(block, 1, 5 << 20);
  allocate(1000);
  free(block);
  if (!freed) free(before);
  if (threaded) {
    sem_post(&room);
    pthread_join(thread, NULL);
  }
  puts("ok");
  return 0;
}
