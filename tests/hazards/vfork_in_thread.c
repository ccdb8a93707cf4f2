/* A thread's first allocation happens in its vfork child, which shares its memory but not its
 * thread id: the thread's place in the log must stay its own when the child has gone. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 12, kBlocks = 200000 };

static void* work(void* at) {
  const pid_t child = vfork();
  if (child == 0) {
    free(malloc(100));
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  for (int i = 0; i < kBlocks; ++i) free(malloc(16 + (size_t)i % 500));
  return at;
}

int main(void) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  puts("done");
  return 0;
}
