/* Many more small blocks than are worth a record each, from sites that hold known amounts of them.
 * usage: heap_auto sites | threads | few | deep | churn MIB
 * Prints "site N BYTES" for what sites hold at the peak, in sites, threads and deep. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSites = 12, kChurn = 60000, kThreads = 4, kLarge = 100000, kLargeBlocks = 20 };

static void* held[kSites][8192];
static size_t held_count[kSites];
static size_t held_bytes[kSites];

__attribute__((noinline)) static void* churned(size_t bytes) {
  void* volatile block = malloc(bytes);
  return block;
}

__attribute__((noinline)) static void churn(long rounds) {
  void* live[64] = {0};
  for (long i = 0; i < rounds; ++i) {
    void** at = &live[i * 37 % 64];
    if (i % 7 == 0) {
      *at = realloc(*at, (size_t)(i * 7919 % 900) + 1);
    } else {
      free(*at);
      *at = churned((size_t)(i * 7919 % 900) + 1);
    }
  }
  for (int i = 0; i < 64; ++i) free(live[i]);
}

static size_t bytes_of(int site, size_t i) {
  return 16 + (i * 2654435761u + (size_t)site * 97) % (64u << site % 6);
}

/* Each site is a function of its own: they hold from 20 KiB to some MiB. */
#define SITE(n)                                                           \
  __attribute__((noinline)) static void site_##n(void) {                  \
    const size_t count = 300 << (n % 5);                                  \
    for (size_t i = 0; i < count; ++i) {                                  \
      const size_t bytes = bytes_of(n, i);                                \
      void* volatile block = malloc(bytes);                               \
      held[n][held_count[n]++] = block;                                   \
      held_bytes[n] += bytes;                                             \
    }                                                                     \
  }
SITE(0) SITE(1) SITE(2) SITE(3) SITE(4) SITE(5) SITE(6) SITE(7) SITE(8) SITE(9) SITE(10) SITE(11)
static void (*const sites[kSites])(void) = {site_0, site_1, site_2, site_3, site_4,  site_5,
                                            site_6, site_7, site_8, site_9, site_10, site_11};

__attribute__((noinline)) static void large(void** blocks) {
  for (int i = 0; i < kLargeBlocks; ++i) {
    void* volatile block = malloc(kLarge);
    blocks[i] = block;
  }
}

/* Less than a thread keeps to itself before it hands its sum on: the high-water mark lies within. */
__attribute__((noinline)) static void spike(void) {
  void* blocks[30];
  for (int i = 0; i < 30; ++i) blocks[i] = churned(1000);
  for (int i = 0; i < 30; ++i) free(blocks[i]);
}

enum { kDepth = 24, kPaths = 100000, kPathBytes = 4000, kHeldPaths = 16 };

__attribute__((noinline)) static void site_deep(size_t i) {
  void* volatile block = malloc(kPathBytes);
  if (i % kHeldPaths != 0) {
    free(block);
  } else {
    held[0][held_count[0]++] = block;
    held_bytes[0] += kPathBytes;
  }
}

static void descend(unsigned path, int depth, size_t i);
__attribute__((noinline)) static void left(unsigned path, int depth, size_t i) {
  descend(path, depth, i);
}
__attribute__((noinline)) static void right(unsigned path, int depth, size_t i) {
  descend(path, depth, i);
}
/* Each block has a stack of its own, as while Python imports. */
__attribute__((noinline)) static void descend(unsigned path, int depth, size_t i) {
  if (depth == 0) {
    site_deep(i);
  } else if (path & 1) {
    left(path >> 1, depth - 1, i);
  } else {
    right(path >> 1, depth - 1, i);
  }
}

static void* churn_in_thread(void* unused) {
  churn(kChurn);
  return unused;
}

static void free_all(int site) {
  for (size_t i = 0; i < held_count[site]; ++i) free(held[site][i]);
}

static void hold(void) {
  void* blocks[kLargeBlocks];
  churn(kChurn); /* the budget is spent here */
  for (int i = 0; i < kSites; ++i) sites[i]();
  large(blocks);
  spike();
  for (int i = 0; i < kLargeBlocks; ++i) free(blocks[i]);
  for (int i = 0; i < kSites; ++i) free_all(i);
  churn(kChurn);
}

int main(int argc, char** argv) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30); /* a block is a block, however large */
  if (argc == 3 && !strcmp(argv[1], "churn")) {
    /* a mean of 450 bytes */
    churn(atol(argv[2]) * (1 << 20) / 450);
    return 0;
  }
  if (argc != 2) return 2;
  if (!strcmp(argv[1], "few")) {
    churn(1000);
    return 0;
  }
  if (!strcmp(argv[1], "deep")) {
    for (size_t i = 0; i < kPaths; ++i) descend((unsigned)i * 2654435761u, kDepth, i);
    printf("site deep %zu\n", held_bytes[0]);
    return 0;
  }
  if (!strcmp(argv[1], "threads")) {
    pthread_t threads[kThreads];
    for (int i = 0; i < kThreads; ++i) {
      if (pthread_create(&threads[i], 0, churn_in_thread, 0)) return 1;
    }
    hold();
    for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  } else {
    hold();
  }
  for (int i = 0; i < kSites; ++i) printf("site %d %zu\n", i, held_bytes[i]);
  return 0;
}
