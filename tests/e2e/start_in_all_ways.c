/* Starts a program in each way that the C library has, in an environment of its own that preloads
 * another library. argv: PROGRAM. Prints how each ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;
static char* g_clean[] = {"PATH=/usr/bin:/bin", "LD_PRELOAD=libm.so.6", 0};

static void become(const char* how, char* program) {
  char* arguments[] = {program, "1", 0};
  if (!strcmp(how, "execve") || !strcmp(how, "vfork")) execve(program, arguments, g_clean);
  if (!strcmp(how, "execvpe")) execvpe(program, arguments, g_clean);
  if (!strcmp(how, "fexecve")) fexecve(open(program, O_RDONLY | O_CLOEXEC), arguments, g_clean);
  if (!strcmp(how, "execle")) execle(program, program, "1", (char*)0, g_clean);
  environ = g_clean;
  if (!strcmp(how, "execv")) execv(program, arguments);
  if (!strcmp(how, "execvp")) execvp(program, arguments);
  if (!strcmp(how, "execl")) execl(program, program, "1", (char*)0);
  if (!strcmp(how, "execlp")) execlp(program, program, "1", (char*)0);
}

static int start(const char* how, char* program) {
  char* arguments[] = {program, "1", 0};
  pid_t child = -1;
  if (!strcmp(how, "spawn")) {
    if (posix_spawn(&child, program, 0, 0, arguments, g_clean)) return -1;
  } else if (!strcmp(how, "spawnp")) {
    if (posix_spawnp(&child, program, 0, 0, arguments, g_clean)) return -1;
  } else {
    child = strcmp(how, "vfork") ? fork() : vfork();
    if (child == 0) {
      become(how, program);
      _exit(127);
    }
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

int main(int count, char** argv) {
  (void)count;
  const char* hows[] = {"execve", "vfork", "execvpe", "fexecve", "execle", "execv",
                        "execvp", "execl", "execlp",  "spawn",   "spawnp"};
  for (size_t i = 0; i < sizeof hows / sizeof *hows; ++i) {
    printf("%s: ", hows[i]);
    fflush(stdout);
    const int status = start(hows[i], argv[1]);
    if (status != 0) printf("status %d\n", status);
    if (strcmp(g_clean[1], "LD_PRELOAD=libm.so.6") || g_clean[2])
      puts("the environment has changed");
  }
  return 0;
}
