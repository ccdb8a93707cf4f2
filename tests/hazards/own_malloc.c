/* A program with an allocator of its own: its heap cannot be seen, and the report must say so. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static _Alignas(16) char g_arena[64 << 20];
static size_t g_used;

void* malloc(size_t bytes) {
  const size_t at = __atomic_fetch_add(&g_used, (bytes + 31) / 16 * 16, __ATOMIC_RELAXED);
  if (at + bytes + 16 > sizeof g_arena) return 0;
  *(size_t*)(void*)(g_arena + at) = bytes;
  return g_arena + at + 16;
}
void free(void* block) {
  (void)block;
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

int main(void) {
  for (int i = 0; i < 1000; ++i) {
    if (!malloc(1000)) return 1;
  }
  puts("done");
  return 0;
}
