/* Another process stops one thread after the other, wherever it stands and with whatever signals blocked, as a debugger does
 * (ptrace), and the whole process (SIGSTOP). Nothing may come to stand for good, nor be lost.
 *
 * usage: stop_one (thread | process) [ROUNDS] */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kThreads = 4, kCannot = 77 };
static volatile int g_done;
static pid_t g_tids[kThreads];

static void nap(long us) {
  const struct timespec pause = {0, us * 1000};
  nanosleep(&pause, NULL);
}

static void keep(void* at) { __asm__ volatile("" ::"r"(at) : "memory"); }

/* Stacks of as many shapes as there are numbers, so that new ones are met all the time. */
static void __attribute__((noinline)) deep(unsigned shape) {
  if (shape > 1) {
    deep(shape / 2);
    if (shape % 2) keep(&shape);
    return;
  }
  void* block = malloc(100);
  keep(block);
  free(block);
  char* pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *pages = 1;
  munmap(pages, 8192);
}

static void* busy(void* index) {
  unsigned x = (unsigned)(size_t)index;
  __atomic_store_n(&g_tids[x], (pid_t)syscall(SYS_gettid), __ATOMIC_SEQ_CST);
  while (!g_done) {
    x = x * 1103515245 + 12345;
    deep(x >> 12);
    if (x >> 16 & 1) nap(1);
  }
  return NULL;
}

static int stop_threads(int rounds) {
  for (int i = 0; i < kThreads; ++i) {
    if (ptrace(PTRACE_SEIZE, g_tids[i], NULL, NULL) != 0) return kCannot;
  }
  for (int round = 0; round < rounds; ++round) {
    const pid_t one = g_tids[round % kThreads];
    int status;
    if (ptrace(PTRACE_INTERRUPT, one, NULL, NULL) != 0) return 1;
    do {
      if (waitpid(one, &status, __WALL) != one) return 1;
      if (status >> 16 != PTRACE_EVENT_STOP) ptrace(PTRACE_CONT, one, NULL, (void*)(long)WSTOPSIG(status)); /* a signal of its own */
    } while (status >> 16 != PTRACE_EVENT_STOP);
    nap(200 + round * 7919 % 2000); /* the others go on, or wait for it */
    if (ptrace(PTRACE_CONT, one, NULL, NULL) != 0) return 1;
  }
  return 0; /* all go on when their tracer has ended */
}

static int stop_process(int rounds) {
  const pid_t parent = getppid();
  for (int round = 0; round < rounds; ++round) {
    kill(parent, SIGSTOP);
    nap(100 + round * 7919 % 1000);
    kill(parent, SIGCONT);
    nap(500);
  }
  return 0;
}

int main(int count, char** arguments) {
  const int alone = count > 1 && strcmp(arguments[1], "thread") == 0;
  const int rounds = count > 2 ? atoi(arguments[2]) : 200;
  alarm(40); /* a deadlock ends the program by this signal */
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, busy, (void*)i);
  for (int i = 0; i < kThreads; ++i) {
    while (__atomic_load_n(&g_tids[i], __ATOMIC_SEQ_CST) == 0) nap(20);
  }
  const pid_t other = fork();
  if (other == 0) _exit(alone ? stop_threads(rounds) : stop_process(rounds));
  int status;
  while (waitpid(other, &status, 0) < 0 && errno == EINTR) {
  }
  g_done = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  puts("ok");
  return 0;
}
