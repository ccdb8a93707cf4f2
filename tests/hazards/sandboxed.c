/* A program that forbids itself a system call on the way, on pain of death, as sandboxes do. */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void allocate(int times) {
  for (int i = 0; i < times; ++i) free(malloc(100));
}

/* Logs something now, and is there to the end. */
static void* idle(void* argument) {
  allocate(10);
  pthread_mutex_lock(&lock);
  pthread_mutex_unlock(&lock);
  return argument;
}

int main(void) {
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof rules / sizeof rules[0], rules};
  pthread_t thread;
  pthread_mutex_lock(&lock);
  if (pthread_create(&thread, 0, idle, 0) != 0) return 1;
  allocate(1000);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    puts("no filters here");
  } else {
    allocate(100000);
    puts("done");
  }
  pthread_mutex_unlock(&lock);
  pthread_join(thread, 0);
  return 0;
}
