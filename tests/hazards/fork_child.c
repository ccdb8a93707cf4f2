/* A forked child allocates, frees what it inherited and ends; the parent's log must hold the parent
 * alone.
 *
 * usage: fork_child [CHILDREN] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int count, char** arguments) {
  char* inherited = malloc(1 << 20);
  memset(inherited, 1, 1 << 20);
  for (int round = 0; round < (count > 1 ? atoi(arguments[1]) : 20); ++round) {
    const pid_t child = fork();
    if (child == 0) {
      for (int i = 0; i < 1000; ++i) free(malloc(10000));
      char* big = malloc(64 << 20);
      memset(big, 1, 64 << 20);
      free(inherited);
      free(big);
      exit(round);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != round) return 1;
    free(malloc(5000));
  }
  free(inherited);
  puts("done");
  return 0;
}
