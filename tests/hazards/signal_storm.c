/* A timer's handler allocates, on a small stack of its own, in the midst of everything. malloc is
   not allowed there by POSIX, so the program keeps out of glibc's locks: the handler strikes only
   outside of malloc.

   usage: signal_storm [SIGNALS] */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static volatile unsigned long g_sum;
static volatile sig_atomic_t g_in_malloc, g_strikes;

static void strike(int signal) {
  (void)signal;
  ++g_strikes;
  if (!g_in_malloc) free(malloc(100));
}

int main(int count, char** arguments) {
  const int signals = count > 1 ? atoi(arguments[1]) : 2000;
  stack_t stack = {.ss_sp = malloc(16384), .ss_size = 16384};
  sigaltstack(&stack, 0);
  struct sigaction action = {.sa_handler = strike, .sa_flags = SA_ONSTACK | SA_RESTART};
  sigaction(SIGALRM, &action, 0);
  struct itimerval every = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &every, 0);
  while (g_strikes < signals) {
    g_in_malloc = 1;
    void* block = malloc(2000);
    g_in_malloc = 0;
    for (int i = 0; i < 2000; ++i) g_sum += (unsigned long)i * (unsigned long)g_strikes;
    g_in_malloc = 1;
    free(block);
    g_in_malloc = 0;
  }
  memset(&every, 0, sizeof every);
  setitimer(ITIMER_REAL, &every, 0);
  puts("done");
  return 0;
}
