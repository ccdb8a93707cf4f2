/* Results and errno of unusual requests are the allocator's own. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static void show(const char* what, const void* block) {
  printf("%s %s errno %d\n", what, block ? "block" : "null", errno);
}

int main(void) {
  volatile size_t huge = PTRDIFF_MAX, wraps = -4096;
  errno = 0;
  printf("munmap huge %d, wraps %d, errno %d\n", munmap((void*)4096, huge - 4095),
         munmap((void*)4096, wraps), errno);
  errno = 0;
  show("malloc huge", malloc(huge));
  errno = 0;
  show("calloc overflow", calloc(huge, 16));
  errno = 0;
  show("reallocarray overflow", reallocarray(0, huge, 16));
  errno = 0;
  void* block = malloc(1000);
  memset(block, 7, 1000);
  show("realloc huge", realloc(block, huge));
  printf("kept %d\n", ((char*)block)[999]);
  void* same = 0;
  errno = 11;
  printf("posix_memalign bad %d\n", posix_memalign(&same, 3, 100));
  printf("posix_memalign huge %d\n", posix_memalign(&same, 64, huge));
  show("posix_memalign keeps errno", same);
  errno = 11;
  void* zero = malloc(0);
  show("malloc zero", zero);
  free(zero);
  free(0);
  show("realloc zero", realloc(block, 0));
  errno = 42;
  block = malloc(100);
  block = realloc(block, 100000);
  show("success keeps errno", block);
  free(block);
  printf("errno %d\n", errno);
  return 0;
}
