/* What is resident for other reasons than a heap in use. argv: arenas: threads that free most of
 * what they took, so that malloc keeps it; shared: System V's shared memory. Prints the truth. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>

enum { kThreads = 4, kBlocks = 12800, kBytes = 4080, kKeptEach = 64 };

static pthread_barrier_t g_all;
static pthread_mutex_t g_turn = PTHREAD_MUTEX_INITIALIZER;

/* 50 MiB, of which all but every 64th block goes. */
static void* work(void* unused) {
  static char* volatile blocks[kBlocks];
  pthread_barrier_wait(&g_all); /* all live at once: an arena each */
  pthread_mutex_lock(&g_turn);
  for (int i = 0; i < kBlocks; ++i) blocks[i] = memset(malloc(kBytes), 1, kBytes);
  for (int i = 0; i < kBlocks; ++i)
    if (i % kKeptEach) free(blocks[i]);
  pthread_mutex_unlock(&g_turn);
  pthread_barrier_wait(&g_all);
  return unused;
}

static void arenas(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&g_all, 0, kThreads + 1);
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], 0, work, 0);
  pthread_barrier_wait(&g_all);
  pthread_barrier_wait(&g_all);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], 0);
  printf("kept_by_malloc %zu\n", (size_t)kThreads * kBlocks * kBytes / kKeptEach * (kKeptEach - 1));
  malloc_trim(0);
}

static void shared(void) {
  const size_t bytes = 200 << 20;
  const int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
  if (id < 0) exit(77);
  char* at = shmat(id, 0, 0);
  shmctl(id, IPC_RMID, 0);
  memset(at, 1, bytes);
  printf("shared_memory %zu\n", bytes);
}

int main(int count, char** argv) {
  if (count > 1 && !strcmp(argv[1], "shared"))
    shared();
  else
    arenas();
  return 0;
}
