/* A real-time thread, which must not use more than a second of its processor without a pause
 * (RLIMIT_RTTIME, as rtkit sets it), allocates beside a thread of normal priority, all on one
 * processor. What that one has locked it must be let to give back, even while a third thread of a
 * priority between theirs waits for the first by looking all the time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

enum { kCannotBeTried = 77 };
static unsigned rounds = 20000;
static atomic_int g_done, g_allocates;

/* A stack of its own for each number: two functions call each other as its bits say. */
static void left(unsigned number, int bits);
static void right(unsigned number, int bits);
static void go(unsigned number, int bits) {
  if (bits == 0)
    free(malloc(16));
  else if ((number & 1) != 0)
    left(number >> 1, bits - 1);
  else
    right(number >> 1, bits - 1);
}
static void left(unsigned number, int bits) {
  go(number, bits);
}
static void right(unsigned number, int bits) {
  go(number, bits);
}

static void sleep_us(long us) {
  const struct timespec time = {0, us * 1000};
  nanosleep(&time, NULL);
}

static void* allocate_normally(void* unused) {
  for (unsigned i = 0; !g_done; ++i) go(i, 24);
  return unused;
}

static void* allocate_at_once(void* unused) {
  for (unsigned i = 0; i < rounds; ++i) {
    sleep_us(50);
    g_allocates = 1;
    go(~i, 24);
    g_allocates = 0;
  }
  g_done = 1;
  return unused;
}

static void* look(void* unused) {
  while (!g_done) {
    sleep_us(70);
    while (g_allocates && !g_done) {
    }
  }
  return unused;
}

static int start(pthread_t* thread, int priority, void* (*work)(void*)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (priority > 0) {
    const struct sched_param parameters = {.sched_priority = priority};
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_FIFO);
    pthread_attr_setschedparam(&attributes, &parameters);
  }
  return pthread_create(thread, &attributes, work, NULL);
}

/* usage: real_time [ROUNDS] */
int main(int count, char** arguments) {
  if (count > 1) rounds = (unsigned)atoi(arguments[1]);
  const struct rlimit most = {1000000, RLIM_INFINITY};
  setrlimit(RLIMIT_RTTIME, &most);
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(0, &first);
  if (sched_setaffinity(0, sizeof first, &first) != 0) return kCannotBeTried;
  pthread_t threads[3];
  if (start(&threads[0], 20, allocate_at_once) != 0) return kCannotBeTried;
  if (start(&threads[1], 10, look) != 0 || start(&threads[2], 0, allocate_normally) != 0) return 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  puts("done");
  return 0;
}
