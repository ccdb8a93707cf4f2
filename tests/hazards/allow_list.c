/* A program that, once it has started, allows itself few system calls and is ended by any other, as
 * sandboxes of parsers are. By prctl, or as libseccomp does it; children and threads inherit it. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALLOW(number) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static void churn(void) {
  for (int i = 0; i < 100000; ++i) free(malloc((size_t)i % 3000));
}

static void* thread(void* argument) {
  churn();
  return argument;
}

/* All but another process. */
static int forbid_children(void) {
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "childless") == 0) {
    if (forbid_children()) return 77;
    churn();
    puts("done");
    return 0;
  }
  struct sock_filter steps[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      ALLOW(SYS_read),
      ALLOW(SYS_write),
      ALLOW(SYS_exit),
      ALLOW(SYS_exit_group),
      ALLOW(SYS_brk),
      ALLOW(SYS_mmap),
      ALLOW(SYS_munmap),
      ALLOW(SYS_mprotect),
      ALLOW(SYS_madvise),
      ALLOW(SYS_futex),
      ALLOW(SYS_close),
      ALLOW(SYS_clone),
      ALLOW(SYS_clone3),
      ALLOW(SYS_wait4),
      ALLOW(SYS_rt_sigprocmask),
      ALLOW(SYS_rt_sigaction),
      ALLOW(SYS_getrandom),
      ALLOW(SYS_set_tid_address),
      ALLOW(SYS_set_robust_list),
      ALLOW(SYS_newfstatat),
      ALLOW(SYS_fstat),
      ALLOW(SYS_rseq),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const struct sock_fprog filter = {sizeof steps / sizeof *steps, steps};
  free(malloc(50000000));
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 77;
  const int by_call = count > 1 && strcmp(arguments[1], "call") == 0;
  /* Neither does anything, and that is how libseccomp asks what there is. */
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0) == 0) return 3;
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 1, 0) == 0) return 4;
  if (by_call ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)
              : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
    return 77;
  churn();
  pthread_t other;
  if (pthread_create(&other, 0, thread, 0) || pthread_join(other, 0)) return 1;
  const pid_t child = fork();
  if (child == 0) {
    churn();
    exit(3);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || WEXITSTATUS(status) != 3) return 2;
  puts("done");
  return 0;
}
