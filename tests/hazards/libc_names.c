/* malloc's family by glibc's own names, which pass other allocators by. With the argument `mixed` some blocks go by the
 * usual names, which only glibc's own malloc takes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1 << 20)

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void*, size_t),
    *__libc_memalign(size_t, size_t), *__libc_valloc(size_t), *__libc_pvalloc(size_t);
extern void __libc_free(void*);

int main(int count, char** arguments) {
  const int is_mixed = count > 1 && strcmp(arguments[1], "mixed") == 0;
  void* held[6] = {__libc_malloc(10 * MIB),         __libc_calloc(5, 2 * MIB), __libc_realloc(__libc_malloc(MIB), 8 * MIB),
                   __libc_memalign(4096, 4 * MIB), __libc_valloc(2 * MIB),    __libc_pvalloc(2 * MIB)};
  void* usual = malloc(20 * MIB);
  for (int i = 0; i < 6; ++i) memset(held[i], 1, MIB);
  memset(usual, 1, MIB);
  if (__libc_calloc((size_t)1 << 63, 4) != NULL) return 1;
  printf("truth heap_peak %d\n", 56 * MIB);
  __libc_free(NULL);
  for (int i = 0; i < 6; ++i) {
    if (is_mixed && i % 2 == 1)
      free(held[i]);
    else
      __libc_free(held[i]);
  }
  if (is_mixed)
    __libc_free(usual);
  else
    free(usual);
  return 0;
}
