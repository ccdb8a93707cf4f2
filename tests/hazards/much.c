/* Enough events for a log of several MiB, from as many threads as are asked for, or so many times as much; ends by itself with a code of its
   own. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { kEvents = 1000000 };
static int threads = 1, times = 1;

static void* work(void* unused) {
  void* live[100] = {0};
  for (int i = 0; i < kEvents / threads * times; ++i) {
    free(live[i % 100]);
    live[i % 100] = malloc((size_t)i * 7919 % 3000);
  }
  return unused;
}

int main(int argc, char** argv) {
  if (argc > 1) threads = atoi(argv[1]);
  if (argc > 2) times = atoi(argv[2]);
  pthread_t others[64];
  for (int i = 1; i < threads; ++i) pthread_create(&others[i], NULL, work, NULL);
  work(NULL);
  for (int i = 1; i < threads; ++i) pthread_join(others[i], NULL);
  puts("done");
  return 9;
}
