/* Every way to allocate, with the true peak of requested heap bytes and of touchable anonymous
 * mappings. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define MIB (1 << 20)

int main(void) {
  void* held[9];
  held[0] = malloc(10 * MIB);
  held[1] = calloc(5, 2 * MIB);
  held[2] = realloc(malloc(1 * MIB), 8 * MIB);
  held[3] = reallocarray(0, 3, 2 * MIB);
  if (posix_memalign(&held[4], 4096, 4 * MIB) != 0) return 1;
  held[5] = aligned_alloc(64, 2 * MIB);
  held[6] = memalign(128, 2 * MIB);
  held[7] = valloc(1 * MIB);
  held[8] = pvalloc(1 * MIB);
  puts("truth heap_peak 46137344"); /* 10 + 10 + 8 + 6 + 4 + 2 + 2 + 1 + 1 MiB */

  char* map =
      mmap(0, 16 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); /* 16 */
  munmap(map + 4 * MIB, 4 * MIB);                                                    /* 12: split */
  mprotect(map, 2 * MIB, PROT_NONE);                                                 /* 10 */
  char* addresses =
      mmap(0, (size_t)1 << 32, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  mprotect(addresses, 8 * MIB, PROT_READ | PROT_WRITE);                   /* 18 */
  char* moved = mremap(map + 8 * MIB, 8 * MIB, 12 * MIB, MREMAP_MAYMOVE); /* 22: the peak */
  if (moved == MAP_FAILED) return 2;
  puts("truth mmap_anon_peak 23068672");
  munmap(addresses, (size_t)1 << 32);
  munmap(moved, 12 * MIB);
  munmap(map, 4 * MIB);

  void (*free_sized)(void*, size_t);
  void (*free_aligned)(void*, size_t, size_t);
  *(void**)&free_sized = dlsym(RTLD_DEFAULT, "free_sized");
  *(void**)&free_aligned = dlsym(RTLD_DEFAULT, "free_aligned_sized");
  if (free_sized)
    free_sized(held[0], 10 * MIB);
  else
    free(held[0]);
  if (free_aligned)
    free_aligned(held[5], 64, 2 * MIB);
  else
    free(held[5]);
  for (int i = 1; i < 9; ++i) {
    if (i != 5) free(held[i]);
  }
  return 0;
}
