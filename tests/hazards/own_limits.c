/* A program that limits its own addresses: those that the library keeps for later must not be
 * missing.
 * usage: own_limits setrlimit|prlimit|forked */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kLimit = 256 << 20, kBlock = 200 << 20 };

static int limited(int by_prlimit) {
  struct rlimit limit = {kLimit, kLimit};
  const int failed =
      by_prlimit ? prlimit(getpid(), RLIMIT_AS, &limit, NULL) : setrlimit(RLIMIT_AS, &limit);
  void* block = malloc(kBlock);
  getrlimit(RLIMIT_AS, &limit);
  printf("failed %d, a block %d, the limit %lu\n", failed, block != NULL,
         (unsigned long)limit.rlim_cur);
  fflush(stdout);
  free(block);
  return block == NULL;
}

/* Each depth is a stack of its own, of which the library remembers each frame. */
static __attribute__((noinline)) int many_stacks(int depth) {
  char* volatile block = malloc(100);
  if (depth == 0) {
    free(block);
    return 0;
  }
  const int below = many_stacks(depth - 1) + (depth % 2 == 0 ? many_stacks(depth / 4) : 0);
  free(block);
  return below + (block == NULL);
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  int failed = many_stacks(40);
  if (strcmp(mode, "forked") == 0) {
    const pid_t child = fork();
    if (child == 0) exit(limited(0));
    int status = 0;
    waitpid(child, &status, 0);
    failed = WEXITSTATUS(status);
  } else {
    failed = limited(strcmp(mode, "prlimit") == 0);
  }
  many_stacks(60);
  return failed;
}
