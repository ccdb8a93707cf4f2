/* A collector stops the world: it sends each thread a signal and waits until all stand in their handlers, then maps and
 * unmaps memory itself, looks at the loaded libraries, and lets them go on. Whatever a thread was doing then, nobody may
 * wait for it: neither the collector nor a thread whose signals are blocked, which the signal does not reach.
 *
 * usage: stop_world (allocate | map | start | generated) [ROUNDS] */
#define _GNU_SOURCE
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { kThreads = 5, kCodeBytes = 4 << 20 };
static volatile int g_stopped, g_go, g_done;
static void (*g_work)(unsigned);

static void nap(long us) {
  const struct timespec pause = {0, us * 1000};
  nanosleep(&pause, NULL);
}

static void stand(int signal) {
  (void)signal;
  __atomic_add_fetch(&g_stopped, 1, __ATOMIC_SEQ_CST);
  while (!g_go) nap(20);
  __atomic_sub_fetch(&g_stopped, 1, __ATOMIC_SEQ_CST);
}

static void keep(void* at) { __asm__ volatile("" ::"r"(at) : "memory"); }

static void block_of(unsigned bytes) {
  void* block = malloc(bytes % 3000 + 1);
  keep(block);
  free(block);
}

static void pages_of(unsigned bytes) {
  char* at = mmap(NULL, 8192 + bytes % 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  *at = 1;
  mprotect(at, 4096, PROT_READ);
  munmap(at, 8192 + bytes % 2 * 4096);
}

/* Stacks of as many shapes as there are numbers, so that new ones are met all the time. */
static void __attribute__((noinline)) deep(unsigned shape, void (*work)(unsigned)) {
  if (shape <= 1) {
    work(shape);
  } else if (shape % 2) {
    deep(shape / 2, work);
  } else {
    deep(shape / 2, work);
    keep(&shape);
  }
  keep(&shape);
}

static void allocate(unsigned x) {
  for (int i = 0; i < 50; ++i) block_of(x + i);
  deep(x >> 8, block_of);
}

static void map(unsigned x) { deep(x >> 8, pages_of); }

static void* short_life(void* bytes) {
  void* block = malloc((size_t)bytes);
  keep(block);
  free(block);
  return NULL;
}

static void start(unsigned x) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, short_life, (void*)(size_t)(x % 1000 + 1)) == 0) pthread_join(thread, NULL);
}

/* Code made at run time, which no library has: mov rdi, 64; call malloc; ret, and as much as nothing beside it. */
static char* g_code;
static void generated(unsigned x) {
#ifdef __x86_64__
  static const unsigned char kCall[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd0, 0x5d, 0xc3}; /* push rbp; mov rbp, rsp; call rax; pop rbp; ret */
  char* code = g_code + (x >> 8) % kCodeBytes / 16 * 16;
  memcpy(code, kCall, sizeof kCall);
  void* block;
  __asm__ volatile("call *%1"
                   : "=a"(block)
                   : "r"(code), "a"(malloc), "D"(64)
                   : "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "memory", "cc");
  free(block);
#else
  allocate(x);
#endif
}

static void* busy(void* seed) {
  unsigned x = (unsigned)(size_t)seed;
  while (!g_done) {
    x = x * 1103515245 + 12345;
    g_work(x);
    if (x >> 16 & 1) nap(1); /* else few processors have the collector wait for whole time slices */
  }
  return NULL;
}

static int look(struct dl_phdr_info* object, size_t bytes, void* data) {
  (void)object;
  (void)bytes;
  (void)data;
  return 0;
}

int main(int count, char** arguments) {
  const char* mode = count > 1 ? arguments[1] : "allocate";
  const int rounds = count > 2 ? atoi(arguments[2]) : 200;
  g_work = strcmp(mode, "map") == 0         ? map
           : strcmp(mode, "start") == 0     ? start
           : strcmp(mode, "generated") == 0 ? generated
                                            : allocate;
  g_code = mmap(NULL, kCodeBytes, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (g_code == MAP_FAILED) return 77;
  struct sigaction action = {.sa_handler = stand, .sa_flags = SA_RESTART};
  sigaction(SIGUSR2, &action, NULL);
  alarm(40); /* a deadlock ends the program by this signal */
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, busy, (void*)i);
  for (int round = 0; round < rounds; ++round) {
    g_go = 0;
    for (int i = 0; i < kThreads; ++i) pthread_kill(threads[i], SIGUSR2);
    while (g_stopped < kThreads) nap(20);
    deep(round * 2654435761u, pages_of);
    dl_iterate_phdr(look, NULL);
    g_go = 1;
    while (g_stopped > 0) nap(20);
    nap(round * 7919 % 200);
  }
  g_done = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  puts("ok");
  return 0;
}
