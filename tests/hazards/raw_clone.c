/* A child made without libc: no fork handler runs in it, and it allocates all the same. */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
  for (int round = 0; round < 20; ++round) {
    free(malloc(3000));
    const long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
      for (int i = 0; i < 100; ++i) memset(malloc(100000), 1, 100000);
      _exit(round);
    }
    int status = 0;
    waitpid((pid_t)child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != round) return 1;
  }
  puts("done");
  return 0;
}
