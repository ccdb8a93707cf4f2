/* Preloaded into the command: it may use sixteen processors, however many there are; and the file
   that VANISHES names is gone once a child was waited for. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t* set) {
  (void)pid;
  CPU_ZERO_S(bytes, set);
  for (int i = 0; i < 16; ++i) CPU_SET_S(i, bytes, set);
  return 0;
}

pid_t waitpid(pid_t pid, int* status, int options) {
  const pid_t ended = wait4(pid, status, options, NULL);
  const char* const path = getenv("VANISHES");
  if (path != NULL) unlink(path);
  return ended;
}
