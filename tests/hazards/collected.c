/* The Boehm collector stops all threads by a signal while they allocate from the C library, and maps memory, looks at the
 * loaded libraries and sends signals itself while the world stands.
 *
 * usage: collected [ROUNDS] */
#define GC_THREADS
#include <gc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct node {
  struct node* next;
  char pad[24];
};
static volatile int g_done;

static void* allocate(void* bytes) {
  while (!g_done) {
    char* block = malloc(100 + (size_t)bytes);
    *block = 1;
    free(block);
  }
  return NULL;
}

int main(int count, char** arguments) {
  enum { kThreads = 4, kWide = 2000 };
  GC_INIT();
  GC_allow_register_threads();
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, allocate, (void*)i);
  for (int round = count > 1 ? atoi(arguments[1]) : 20; round > 0; --round) {
    struct node** wide = GC_MALLOC(kWide * sizeof *wide);
    for (int i = 0; i < kWide; ++i) wide[i] = GC_MALLOC(sizeof(struct node));
    GC_gcollect();
  }
  g_done = 1;
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  puts("ok");
  return 0;
}
