/* Signal handlers on a stack that is large enough for them (8 KiB or so, as SIGSTKSZ long was;
 * twice that on aarch64), not for an unwinder as well. They are called by raise(), so they may do
 * what others do. Below each stack lies a page without access.
 *
 * usage: small_alternate_stack [SIGNALS of each thread] */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#ifdef __aarch64__
enum { kOwnNeed = 8192 };
#else
enum { kOwnNeed = 4608 };
#endif
enum { kGuard = 4096, kLargest = 64 << 10 };
static char* stack_top;
static int signals = 20000;
static volatile size_t frame_bytes; /* what the kernel puts there depends on the processor */

static void measure(int number) {
  char here;
  (void)number;
  frame_bytes = (size_t)((uintptr_t)stack_top - (uintptr_t)&here);
}

static void work(int number) {
  (void)number;
  free(malloc(100));
  void* page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) abort();
  munmap(page, 4096);
}

static void use_stack(size_t bytes) {
  char* at = mmap(0, kLargest + kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char* begin = at + kGuard;
  stack_t stack = {.ss_sp = begin, .ss_size = bytes};
  if (at == MAP_FAILED || mprotect(begin, kLargest, PROT_READ | PROT_WRITE) ||
      sigaltstack(&stack, 0))
    abort();
  __atomic_store_n(&stack_top, begin + bytes, __ATOMIC_RELAXED);
}

static void* thread(void* argument) {
  use_stack((frame_bytes + kOwnNeed + 15) / 16 * 16);
  for (int i = 0; i < signals; ++i) raise(SIGUSR1);
  return argument;
}

int main(int count, char** arguments) {
  if (count > 1) signals = atoi(arguments[1]);
  struct sigaction action = {.sa_handler = measure, .sa_flags = SA_ONSTACK};
  use_stack(kLargest);
  if (sigaction(SIGUSR1, &action, 0) || raise(SIGUSR1)) return 1;
  action.sa_handler = work;
  if (sigaction(SIGUSR1, &action, 0)) return 1;
  for (int i = 0; i < 2; ++i) {
    pthread_t threads[3];
    for (int j = 0; j < 3; ++j) {
      if (pthread_create(&threads[j], 0, thread, 0)) return 1;
    }
    for (int j = 0; j < 3; ++j) pthread_join(threads[j], 0);
  }
  puts("done");
  return 0;
}
