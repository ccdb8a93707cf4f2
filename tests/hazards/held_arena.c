/* A thread that somebody has stopped may hold the lock of one of malloc's arenas, for as long as that takes. Another one
 * goes on with an arena of its own, and waits for nobody. Stopped here by a full pipe: malloc_stats() prints with the
 * main arena's lock held. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kSteps = 8, kStepBytes = 8 << 20, kBlocks = 1000 };
static int g_ends[2];

static void* print(void* unused) {
  malloc_stats();
  return unused;
}

/* Ever more is resident, so that what holds it is worth looking up. */
static void* go_on(void* unused) {
  char* at = mmap(NULL, (size_t)kSteps * kStepBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int step = 0; step < kSteps; ++step) {
    memset(at + (size_t)step * kStepBytes, 1, kStepBytes);
    for (int i = 0; i < kBlocks; ++i) free(memset(malloc(i + 1), 1, 1));
    free(memset(malloc(2 << 20), 1, 1));
  }
  char bytes[4096];
  while (read(g_ends[0], bytes, sizeof bytes) > 0) continue; /* the other one goes on, and ends */
  return unused;
}

int main(void) {
  pthread_t printer, other;
  const int own = dup(STDERR_FILENO);
  if (own < 0 || pipe(g_ends) != 0) return 77;
  fcntl(g_ends[1], F_SETFL, O_NONBLOCK);
  while (write(g_ends[1], "full", 1) == 1) continue;
  fcntl(g_ends[1], F_SETFL, 0);
  alarm(40); /* a deadlock ends the program by this signal */
  pthread_create(&other, NULL, go_on, NULL);
  dup2(g_ends[1], STDERR_FILENO);
  close(g_ends[1]);
  pthread_create(&printer, NULL, print, NULL);
  pthread_join(printer, NULL);
  dup2(own, STDERR_FILENO);
  pthread_join(other, NULL);
  puts("ok");
  return 0;
}
