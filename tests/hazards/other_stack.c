/* A function is called on another stack by inline assembly, as fibers and helpers that need a large stack do. The unwind rules of
 * the caller know nothing of that: by them its own caller's words lie behind the end of the other stack, where nothing is mapped,
 * or where a larger stack was before. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { kPage = 4096, kRounds = 50 };

static void __attribute__((noinline)) work(void) {
  void* block = malloc(100);
  __asm__ volatile("" ::"r"(block) : "memory");
  free(block);
}

static void __attribute__((noinline)) deeper(int depth) {
  char pad[3000];
  __asm__ volatile("" ::"r"(pad) : "memory");
  if (depth > 0)
    deeper(depth - 1);
  else
    work();
  __asm__ volatile("" ::"r"(pad) : "memory");
}
static void work_deeply(void) { deeper(20); }

static int __attribute__((noinline)) call_on(char* top, void (*function)(void)) {
  char pad[4000];
  __asm__ volatile("" ::"r"(pad) : "memory");
#if defined __x86_64__
  __asm__ volatile("mov %%rsp, %%rbx\n\tmov %0, %%rsp\n\tcall *%1\n\tmov %%rbx, %%rsp"
                   :
                   : "r"(top), "r"(function)
                   : "rbx", "memory", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "cc");
#elif defined __aarch64__
  __asm__ volatile("mov x19, sp\n\tmov sp, %0\n\tblr %1\n\tmov sp, x19"
                   :
                   : "r"(top), "r"(function)
                   : "x19", "x30", "memory", "cc", "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12",
                     "x13", "x14", "x15", "x16", "x17", "x18");
#endif
  __asm__ volatile("" ::"r"(pad) : "memory");
  return pad[0] * 0 + 1;
}

int main(void) {
  const size_t bytes = 64 * kPage, room = 3 * bytes;
  for (int round = 0; round < kRounds; ++round) {
    /* At one place a small stack, then a large one, then a small one again; nothing can be read beside it. */
    char* place = mmap((void*)0x200000000000, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (place == MAP_FAILED) return 77;
    const size_t top = (round % 3 == 1 ? 2 : 1) * bytes;
    mprotect(place + kPage, top - kPage, PROT_READ | PROT_WRITE);
    for (int i = 0; i < 3; ++i) {
      call_on(place + bytes, work);
      call_on(place + top, work_deeply);
      work();
    }
    munmap(place, room);
  }
  puts("ok");
  return 0;
}
