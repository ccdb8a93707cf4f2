/* Forbids itself to read the time stamp counter, in the middle of things, and goes on, also in threads that it starts.
 * The peak comes after that. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(void) {
  void* blocks[100];
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 100; ++i) blocks[i] = malloc(1000);
    for (int i = 0; i < 100; ++i) free(blocks[i]);
  }
}

static volatile int go_on = 1;

static void* beside(void* argument) {
  while (go_on) allocate();
  return argument;
}
static void* after(void* argument) {
  allocate();
  return argument;
}

int main(void) {
  pthread_t early, late;
  allocate();
  pthread_create(&early, NULL, beside, NULL);
  if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) != 0) return 77;
  allocate();
  pthread_create(&late, NULL, after, NULL);
  pthread_join(late, NULL);
  go_on = 0;
  pthread_join(early, NULL);
  const pid_t child = fork();
  if (child == 0) {
    allocate();
    _exit(5);
  }
  int status = 0;
  waitpid(child, &status, 0);
  void* largest = malloc(50000000);
  free(largest);
  printf("child %d, %s\n", WEXITSTATUS(status), largest != NULL ? "done" : "no memory");
  return 0;
}
