/* What the kernel refuses has not happened: a part of a huge page that is to be unmapped, a sealed
 * range, both in parts; while other threads unmap ranges and are given the same addresses again. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kMseal = 462, kSealed = 32 << 20, kHuge = 4 << 20, kTwoMiB = 21 << 26 };
enum { kThreads = 2, kHeld = 16, kBytes = 64 << 10, kRefusals = 500 };
static atomic_int g_busy = 1;

static char* map(size_t bytes, int flags) {
  char* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return at == MAP_FAILED ? NULL : at;
}

static void* keep_mapping(void* unused) {
  char* held[kHeld];
  for (int i = 0; i < kHeld; ++i) held[i] = map(kBytes, 0);
  for (int i = 0; g_busy; i = (i + 1) % kHeld) {
    munmap(held[i], kBytes);
    held[i] = map(kBytes, 0);
  }
  return unused;
}

static int is_refused(char* at, size_t bytes, int error) {
  errno = 0;
  return munmap(at, bytes) == -1 && errno == error;
}

int main(void) {
  size_t mapped = kThreads * kHeld * kBytes;
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], NULL, keep_mapping, NULL) != 0) return 1;
  }
  int tried = 0;
  char* huge = map(kHuge, MAP_HUGETLB | MAP_NORESERVE | kTwoMiB);
  if (huge != NULL) {
    ++tried;
    mapped += kHuge;
    for (int i = 0; i < kRefusals; ++i) {
      if (!is_refused(huge + 4096, kHuge - 4096, EINVAL)) return 2;
    }
  }
  char* sealed = map(kSealed, 0);
  mapped += kSealed;
  if (syscall(kMseal, sealed, (size_t)kSealed, 0) == 0) {
    ++tried;
    for (int i = 0; i < kRefusals; ++i) {
      if (!is_refused(sealed + 4096, kSealed / 2, EPERM)) return 3;
    }
    if (mremap(sealed, kSealed, (size_t)2 * kSealed, MREMAP_MAYMOVE) != MAP_FAILED) return 4;
    if (mprotect(sealed, kSealed, PROT_NONE) == 0) return 5;
  }
  char* gone = map(1 << 20, 0);
  if (munmap(gone, 1 << 20) != 0) return 6;
  g_busy = 0;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("truth mmap_anon_live %zu\n", mapped);
  return tried != 0 ? 0 : 77;
}
