/* A thread that confines itself to read, write and exit, and allocates what needs no system call; the others go on.
 * With an argument it is the main thread. */
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void* confined(void* argument) {
  for (int i = 0; i < 100; ++i) free(malloc(1000));
  void* blocks[8];
  for (int i = 0; i < 8; ++i) blocks[i] = malloc(3000); /* so that the arena has room */
  for (int i = 0; i < 8; ++i) free(blocks[i]);
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(77);
  for (int i = 0; i < 1000; ++i) free(malloc(1000 + i));
  if (write(1, "confined\n", 9) != 9) syscall(SYS_exit, 1);
  syscall(SYS_exit, 0);
  return argument;
}

int main(int argc, char** argv) {
  (void)argv;
  if (argc > 1) confined(NULL);
  pthread_t thread;
  pthread_create(&thread, NULL, confined, NULL);
  pthread_join(thread, NULL);
  void* largest = malloc(50000000);
  free(largest);
  puts(largest != NULL ? "done" : "no memory");
  return 0;
}
