/* A timer's handler leaves by siglongjmp whatever it interrupts, mmap and munmap above all, while
 * another thread does the same calls: what was locked or opened then must not stay so, not even
 * when the thread waits for the other one at once.
 *
 * usage: jump_from_lock [JUMPS] */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static sigjmp_buf g_back;
static volatile int g_may_jump, g_done;

static void strike(int signal) {
  (void)signal;
  if (g_may_jump) siglongjmp(g_back, 1);
}

static void __attribute__((noinline)) map(int depth, volatile int* sink) {
  if (depth > 0) {
    map(depth - 1, sink);
  } else {
    void* at = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(at, 4096, PROT_READ);
    munmap(at, 65536);
  }
  *sink += depth;
}

static void* map_too(void* unused) {
  volatile int sink = 0;
  while (!g_done) map(3, &sink);
  return unused;
}

int main(int count, char** arguments) {
  const int rounds = count > 1 ? atoi(arguments[1]) : 3000;
  sigset_t alarm_only;
  sigemptyset(&alarm_only);
  sigaddset(&alarm_only, SIGALRM);
  pthread_t other;
  pthread_sigmask(SIG_BLOCK, &alarm_only, NULL); /* the main thread alone gets it */
  pthread_create(&other, NULL, map_too, NULL);
  signal(SIGALRM, strike);
  pthread_sigmask(SIG_UNBLOCK, &alarm_only, NULL);
  const struct itimerval often = {{0, 100}, {0, 100}};
  setitimer(ITIMER_REAL, &often, NULL);
  volatile int sink = 0;
  for (volatile int jumps = 0; jumps < rounds; jumps = jumps + 1) {
    if (sigsetjmp(g_back, 1) == 0) {
      g_may_jump = 1;
      for (int i = 0;; ++i) map(i % 40, &sink);
    }
    g_may_jump = 0;
  }
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &never, NULL);
  g_done = 1;
  pthread_join(other, NULL);
  printf("done, the next descriptor is %d\n", dup(0));
  return 0;
}
