/* Allocates, maps, forks, jumps, takes signals and threads, in a program that cannot be recorded; ends with code 7.
 * With an argument it writes behind a block. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static jmp_buf out;
static volatile sig_atomic_t signals;

static void on_signal(int number) {
  signals += number == SIGBUS;
}

static void* work(void* argument) {
  for (int i = 0; i < 1000; ++i) {
    char* block = malloc(100 + i);
    memset(block, 1, 100);
    block = realloc(block, 2000 + i);
    free(block);
  }
  return argument;
}

int main(int argc, char** argv) {
  pthread_t thread;
  pthread_create(&thread, NULL, work, NULL);
  work(NULL);
  pthread_join(thread, NULL);
  void* pages = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(pages, 1, 4096);
  munmap(pages, 1 << 20);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigaction(SIGBUS, &action, NULL);
  raise(SIGBUS);
  if (setjmp(out) == 0) longjmp(out, 1);
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  void* self = dlopen(NULL, RTLD_NOW);
  const int found = dlsym(self, "malloc") != NULL;
  dlclose(self);
  const pid_t child = fork();
  if (child == 0) _exit(5);
  int status = 0;
  waitpid(child, &status, 0);
  printf("signals %d, malloc %d, child %d\n", (int)signals, found, WEXITSTATUS(status));
  fflush(stdout);
  if (argc > 1) {
    char* volatile block = malloc(10);
    block[atoi(argv[1])] = 1;
    free(block);
  }
  return 7;
}
