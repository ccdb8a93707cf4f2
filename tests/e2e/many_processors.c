/* Preloaded into the command: it may use sixteen processors, however many there are. */
#define _GNU_SOURCE
#include <sched.h>

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t* set) {
  (void)pid;
  CPU_ZERO_S(bytes, set);
  for (int i = 0; i < 16; ++i) CPU_SET_S(i, bytes, set);
  return 0;
}
