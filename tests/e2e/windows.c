/* Threads that allocate, move and free all the time, and keep account of what is theirs by malloc_usable_size. Told by
 * lines of standard input; each is answered by one line.
 *   hold       the threads stand still: "held BYTES", what is live of theirs and of the blocks below
 *   go         they go on
 *   poke       one malloc and free of the first thread
 *   keep N B   N blocks of B bytes, from a function of that name: "kept BYTES" (usable)
 *   drop N     frees the last N of them: "dropped BYTES"
 * usage: windows THREADS */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kMostThreads = 64, kBlocks = 256, kMostKept = 100000 };

static atomic_int g_hold, g_standing, g_end;
static atomic_long g_live;
static void* g_kept[kMostKept];
static int g_kept_count;
static long g_kept_bytes;
static _Atomic(void*) g_passed_on[64]; /* from thread to thread */

static void add(void* block, int sign) {
  if (block != NULL) atomic_fetch_add(&g_live, sign * (long)malloc_usable_size(block));
}

static void* work(void* seed_of) {
  unsigned seed = (unsigned)(size_t)seed_of;
  void* blocks[kBlocks] = {0};
  for (long i = 0; atomic_load(&g_end) == 0; ++i) {
    if (atomic_load(&g_hold) != 0) {
      atomic_fetch_add(&g_standing, 1);
      while (atomic_load(&g_hold) != 0) usleep(200);
      atomic_fetch_sub(&g_standing, 1);
    }
    seed = seed * 1103515245u + 12345u;
    void** at = &blocks[(seed >> 8) % kBlocks];
    const size_t bytes = (seed >> 16) % 97 == 0 ? 70000 + seed % 5000 : (seed >> 12) % 900 + 1;
    if (seed >> 30 == 0) {
      add(*at, -1);
      *at = realloc(*at, bytes);
    } else {
      void* other = atomic_exchange(&g_passed_on[(seed >> 20) % 64], *at);
      add(other, -1);
      free(other);
      *at = malloc(bytes);
    }
    add(*at, 1);
    if (i % 64 == 0) usleep(300);
  }
  return NULL;
}

__attribute__((noinline)) static long keep(int count, size_t bytes) {
  long sum = 0;
  for (int i = 0; i < count && g_kept_count < kMostKept; ++i) {
    void* volatile block = malloc(bytes);
    g_kept[g_kept_count++] = block;
    sum += (long)malloc_usable_size(block);
  }
  g_kept_bytes += sum;
  return sum;
}

static long drop(int count) {
  long sum = 0;
  for (int i = 0; i < count && g_kept_count > 0; ++i) {
    void* block = g_kept[--g_kept_count];
    sum += (long)malloc_usable_size(block);
    free(block);
  }
  g_kept_bytes -= sum;
  return sum;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 0;
  static char line[256];
  static char out[4096], in[4096];
  setvbuf(stdout, out, _IOLBF, sizeof out);
  setvbuf(stdin, in, _IOLBF, sizeof in);
  pthread_t ids[kMostThreads];
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, work, (void*)(size_t)(i + 1));
  printf("ready\n");
  while (fgets(line, sizeof line, stdin) != NULL) {
    int count = 0;
    unsigned long bytes = 0;
    if (strcmp(line, "hold\n") == 0) {
      atomic_store(&g_hold, 1);
      while (atomic_load(&g_standing) < threads) usleep(200);
      printf("held %ld\n", atomic_load(&g_live) + g_kept_bytes);
    } else if (strcmp(line, "go\n") == 0) {
      atomic_store(&g_hold, 0);
      while (atomic_load(&g_standing) > 0) usleep(200);
      printf("gone\n");
    } else if (strcmp(line, "poke\n") == 0) {
      void* volatile block = malloc(1);
      free(block);
      printf("poked\n");
    } else if (sscanf(line, "keep %d %lu", &count, &bytes) == 2) {
      printf("kept %ld\n", keep(count, bytes));
    } else if (sscanf(line, "drop %d", &count) == 1) {
      printf("dropped %ld\n", drop(count));
    }
  }
  atomic_store(&g_end, 1);
  atomic_store(&g_hold, 0);
  for (int i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  printf("done\n");
  return 0;
}
