/* MREMAP_DONTUNMAP: the old range stays mapped beside the new one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/mman.h>

enum { kDontUnmap = 4, kCannotBeTried = 77 };

int main(void) {
  const size_t bytes = 256 << 20;
  void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return 1;
  void* other = mremap(at, bytes, bytes, MREMAP_MAYMOVE | kDontUnmap, NULL);
  if (other == MAP_FAILED) return kCannotBeTried;
  printf("truth mmap_anon_peak %zu\ntruth mmap_anon_live %zu\n", 2 * bytes, 2 * bytes);
  return 0;
}
