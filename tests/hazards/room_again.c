/* The log's room is short for a moment: the file size limit that the program was started with is reached, then lifted. What the log
 * has is freed meanwhile, or not; or a thread begins meanwhile, which goes on when there is room again.
 *
 * usage: room_again [freed|thread] */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static sem_t begun, room;

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
  const struct timespec a_while = {1, 200000000}; /* the library's longest rest is a second */
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
