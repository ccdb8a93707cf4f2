/* Another process stops one thread after the other, wherever it stands and with whatever signals blocked, as a debugger does
 * (ptrace), also by a SIGSTOP of that thread alone, and the whole process (SIGSTOP). Nothing may come to stand for good, nor be lost.
 *
 * usage: stop_one (thread | signal | process | marked) [ROUNDS]     marked: a debugger has a breakpoint at stop_here */
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

/* Whether `one` has come to stand by our doing; a signal of its own is passed on. */
static int stands(pid_t one, int by_signal) {
  int status;
  for (;;) {
    if (waitpid(one, &status, __WALL) != one) return 0;
    const int event = status >> 16, signal = WSTOPSIG(status);
    if (by_signal ? event == 0 && signal == SIGSTOP : event == PTRACE_EVENT_STOP) return 1;
    ptrace(PTRACE_CONT, one, NULL, (void*)(long)signal);
  }
}

static int stop_threads(int rounds, int by_signal) {
  const pid_t process = getppid();
  for (int i = 0; i < kThreads; ++i) {
    if (ptrace(PTRACE_SEIZE, g_tids[i], NULL, NULL) != 0) return kCannot;
  }
  for (int round = 0; round < rounds; ++round) {
    const pid_t one = g_tids[round % kThreads];
    if (by_signal ? syscall(SYS_tgkill, process, one, SIGSTOP) != 0 : ptrace(PTRACE_INTERRUPT, one, NULL, NULL) != 0) return 1;
    if (!stands(one, by_signal)) return 1;
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

static void __attribute__((noinline)) stop_here(int round) { keep(&round); }

static int stop(const char* how, int rounds) {
  if (strcmp(how, "process") == 0) return stop_process(rounds);
  return stop_threads(rounds, strcmp(how, "signal") == 0);
}

int main(int count, char** arguments) {
  const char* how = count > 1 ? arguments[1] : "thread";
  const int rounds = count > 2 ? atoi(arguments[2]) : 200;
  alarm(40); /* a deadlock ends the program by this signal */
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, busy, (void*)i);
  for (int i = 0; i < kThreads; ++i) {
    while (__atomic_load_n(&g_tids[i], __ATOMIC_SEQ_CST) == 0) nap(20);
  }
  int status = 0;
  const int marked = strcmp(how, "marked") == 0;
  for (int round = 0; marked && round < rounds; ++round) {
    stop_here(round);
    nap(200);
  }
  const pid_t other = marked ? -1 : fork();
  if (other == 0) _exit(stop(how, rounds));
  while (!marked && waitpid(other, &status, 0) < 0 && errno == EINTR) {
  }
  g_done = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
  puts("ok");
  return 0;
}
