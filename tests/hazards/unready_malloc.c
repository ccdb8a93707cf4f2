/* A program whose own malloc cannot be called before main has set it up, as GNU Common Lisp's
 * (Maxima). Nothing of ours may do so: not the loader for us, nor the C library. Its environment is
 * as it was, and can be changed as ever. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char* heap;
static size_t used;
enum { kHeapBytes = 64 << 20 };

void* malloc(size_t bytes) {
  if (!heap) {
    const char line[] = "malloc was called before main\n";
    if (write(2, line, sizeof line - 1) < 0) _exit(3);
    _exit(4);
  }
  const size_t at = __atomic_fetch_add(&used, (bytes + 31) / 16 * 16, __ATOMIC_RELAXED);
  if (at + bytes + 16 > kHeapBytes) return 0;
  *(size_t*)(void*)(heap + at) = bytes;
  return heap + at + 16;
}
void free(void* block) {
  if (!heap && block) _exit(5);
}
void* calloc(size_t count, size_t bytes) {
  void* block = malloc(count * bytes);
  return block ? memset(block, 0, count * bytes) : 0;
}
void* realloc(void* block, size_t bytes) {
  void* fresh = malloc(bytes);
  if (fresh && block) {
    const size_t old = ((size_t*)block)[-2];
    memcpy(fresh, block, old < bytes ? old : bytes);
  }
  return fresh;
}

extern char** environ;

int main(int count, char** arguments, char** environment) {
  (void)count;
  (void)arguments;
  heap = mmap(0, kHeapBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (heap == MAP_FAILED) return 6;
  if (environ != environment || !getenv("PATH")) return 7;
  char value[] = "b=c";
  if (setenv("a", "1", 1) || putenv(value) || unsetenv("PATH")) return 8;
  if (!getenv("a") || strcmp(getenv("b"), "c") != 0 || getenv("PATH")) return 9;
  for (int i = 0; i < 1000; ++i) {
    if (!malloc(1000)) return 10;
  }
  puts("done");
  return 0;
}
