/* Threads move their mapping about by mremap, while others map what it leaves free at once. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { kMovers = 2, kMappers = 2, kMoves = 8000, kHeld = 16, kBytes = 64 << 10 };
static atomic_int g_moving = kMovers;

static void* map(size_t bytes) {
  void* at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) exit(1);
  return at;
}

/* Into a range of its own, with a size that the old place could have taken too. */
static void* move(void* unused) {
  void* at = map(kBytes);
  for (int i = 0; i < kMoves; ++i) {
    void* target = map(kBytes);
    at = mremap(at, kBytes, kBytes, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    if (at == MAP_FAILED) exit(1);
    /* It cannot grow so far: this fails. */
    if (mremap(at, kBytes, (size_t)1 << 47, 0) != MAP_FAILED) exit(1);
  }
  --g_moving;
  return unused;
}

static void* keep_mapping(void* unused) {
  void* held[kHeld];
  for (int i = 0; i < kHeld; ++i) held[i] = map(kBytes);
  for (int i = 0; g_moving > 0; i = (i + 1) % kHeld) {
    munmap(held[i], kBytes);
    held[i] = map(kBytes);
  }
  return unused;
}

int main(void) {
  pthread_t threads[kMovers + kMappers];
  for (int i = 0; i < kMovers + kMappers; ++i) {
    if (pthread_create(&threads[i], NULL, i < kMovers ? move : keep_mapping, NULL) != 0) return 1;
  }
  for (int i = 0; i < kMovers + kMappers; ++i) pthread_join(threads[i], NULL);
  printf("truth mmap_anon_live %d\n", (kMovers + kMappers * kHeld) * kBytes);
  return 0;
}
