/* What is resident for other reasons than a heap in use. argv: arenas: threads that free most of
 * what they took, so that malloc keeps it; side_by_side: one thread, whose arenas lie side by side;
 * forked: a child, which has what its parent had in use, too; shared: System V's shared memory.
 * Prints the truth. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kThreads = 4, kBlocks = 12800, kBytes = 4080, kKeptEach = 64, kSideBySide = 4 };

static pthread_barrier_t g_all;
static pthread_mutex_t g_turn = PTHREAD_MUTEX_INITIALIZER;

static char* volatile g_blocks[kSideBySide * kBlocks];

/* 50 MiB or several times as much, of which all but every 64th block goes. Bytes that malloc keeps. */
static size_t fill(int count) {
  for (int i = 0; i < count; ++i) g_blocks[i] = memset(malloc(kBytes), 1, kBytes);
  for (int i = 0; i < count; ++i)
    if (i % kKeptEach) free(g_blocks[i]);
  return (size_t)count * kBytes / kKeptEach * (kKeptEach - 1);
}

/* More is resident than ever before, and goes: then it is looked up what for. */
static void look(void) {
  const size_t bytes = 32 << 20;
  char* at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(at, 1, bytes);
  munmap(at, bytes);
}

static void* fill_side_by_side(void* unused) {
  printf("kept_by_malloc %zu\n", fill(kSideBySide * kBlocks));
  look();
  return unused;
}

static void side_by_side(void) {
  pthread_t thread;
  pthread_create(&thread, 0, fill_side_by_side, 0);
  pthread_join(thread, 0);
}

static void forked(void) {
  for (int i = 0; i < kBlocks; ++i) g_blocks[i] = memset(malloc(kBytes), 1, kBytes);
  if (fork() != 0) {
    wait(0);
    return;
  }
  printf("kept_by_malloc %zu\n", fill(kBlocks));
  fflush(stdout);
  look();
}

static void* work(void* unused) {
  pthread_barrier_wait(&g_all); /* all live at once: an arena each */
  pthread_mutex_lock(&g_turn);
  fill(kBlocks);
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
  else if (count > 1 && !strcmp(argv[1], "forked"))
    forked();
  else if (count > 1 && !strcmp(argv[1], "side_by_side"))
    side_by_side();
  else
    arenas();
  return 0;
}
