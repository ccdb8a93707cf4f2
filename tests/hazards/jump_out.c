/* longjmp out of signal handlers and out of deep frames; recording must go on afterwards: 3 MB are
 * held last. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sigjmp_buf g_back;
static void strike(int signal) {
  (void)signal;
  siglongjmp(g_back, 1);
}
static void __attribute__((noinline)) deep(int n) {
  char room[200];
  memset(room, n, sizeof room);
  free(malloc(64));
  if (n == 0) raise(SIGUSR1);
  if (n >= 0) deep(n - 1);
  memset(room, n, sizeof room);
}

int main(void) {
  signal(SIGUSR1, strike);
  for (volatile int i = 0; i < 500; i = i + 1) {
    if (sigsetjmp(g_back, 1) == 0) deep(i % 30);
    free(malloc(128));
  }
  char* kept[3];
  for (int i = 0; i < 3; ++i) kept[i] = malloc(1000000);
  puts("truth heap_peak_at_least 3000000");
  for (int i = 0; i < 3; ++i) free(kept[i]);
  return 0;
}
