/* Reaches the log's limit with blocks that live on beyond it: some are freed behind it, some never
 * are. usage: log_limit one|threads|forked|waits */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
  kEarly = 1000,
  kKept = 100,
  kEarlyBytes = 1000,
  kRounds = 200000,
  kThreads = 4,
  kPeakBytes = 30000000
};
static void* blocks[kEarly];

__attribute__((noinline)) static void early(void) {
  for (int i = 0; i < kEarly; ++i) blocks[i] = malloc(kEarlyBytes);
}

__attribute__((noinline)) static void free_early(int from, int to) {
  for (int i = from; i < to; ++i) free(blocks[i]);
}

__attribute__((noinline)) static void churn(void) {
  void* live[100] = {0};
  for (int i = 0; i < kRounds; ++i) {
    const int at = i * 37 % 100;
    if (i % 5 == 0) {
      live[at] = realloc(live[at], (size_t)i * 7919 % 3000 + 1);
    } else {
      free(live[at]);
      live[at] = malloc((size_t)i * 7919 % 3000);
    }
  }
  for (int i = 0; i < 100; ++i) free(live[i]);
}

__attribute__((noinline)) static void late_peak(void) {
  void* parts[300];
  for (int i = 0; i < 300; ++i) parts[i] = malloc(kPeakBytes / 300);
  for (int i = 0; i < 300; ++i) free(parts[i]);
}

static void* thread(void* unused) {
  churn();
  return unused;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  early();
  if (strcmp(argv[1], "waits") == 0) {
    write(1, "ready\n", 6);
    char line[2];
    if (read(0, line, 1) < 0) return 3;
  }
  pthread_t others[kThreads];
  const int threads = strcmp(argv[1], "threads") == 0 ? kThreads : 0;
  for (int i = 0; i < threads; ++i) pthread_create(&others[i], NULL, thread, NULL);
  churn();
  for (int i = 0; i < threads; ++i) pthread_join(others[i], NULL);
  if (strcmp(argv[1], "forked") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      early(); /* in place of the inherited ones */
      churn();
      free_early(kKept, kEarly);
      exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0) return 4;
  }
  free_early(kKept, kEarly);
  late_peak();
  write(1, "done\n", 5);
  return 0;
}
