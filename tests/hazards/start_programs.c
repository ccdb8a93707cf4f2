/* vfork + exec, posix_spawn, system: what is started says nothing, and the parent goes on
 * recording. */
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

int main(void) {
  int status = 0;
  for (volatile int i = 0; i < 5; i = i + 1) {
    free(malloc(1000));
    const pid_t child = vfork();
    if (child == 0) {
      execl("/bin/sh", "sh", "-c", "exit 3", (char*)0);
      _exit(127);
    }
    waitpid(child, &status, 0);
    if (WEXITSTATUS(status) != 3) return 1;
    char* arguments[] = {"sh", "-c", "exit 4", 0};
    pid_t spawned;
    if (posix_spawn(&spawned, "/bin/sh", 0, 0, arguments, environ) != 0) return 2;
    waitpid(spawned, &status, 0);
    if (WEXITSTATUS(status) != 4) return 3;
  }
  status = system("exit 5");
  if (WEXITSTATUS(status) != 5) return 4;
  puts("done");
  return 0;
}
