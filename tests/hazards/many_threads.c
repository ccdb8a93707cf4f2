/* Thousands of threads live at once: what a new one asks the kernel must not grow with how many
 * there are. All questions whether a thread lives are counted, by a filter of system calls. (Not
 * those for none: a filter by which these ended the program would end the recording.) */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

enum { kThreads = 2000, kMostQuestions = 20, kCannotBeTried = 77 };
static atomic_int g_questions;
static pthread_barrier_t g_all;

static void answer(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)info;
  atomic_fetch_add(&g_questions, 1);
  mcontext_t* registers = &((ucontext_t*)context)->uc_mcontext;
#ifdef __aarch64__
  registers->regs[0] = 0; /* it lives */
#else
  registers->gregs[REG_RAX] = 0;
#endif
}

static void* live(void* at) {
  free(malloc(100));
  pthread_barrier_wait(&g_all);
  return at;
}

int main(void) {
  struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
  sigaction(SIGSYS, &action, NULL);
  struct sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_tgkill, 0, 5),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 3, 0),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog filter = {sizeof rules / sizeof rules[0], rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
    return kCannotBeTried;
  static pthread_t threads[kThreads];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 << 10);
  pthread_barrier_init(&g_all, NULL, kThreads + 1);
  for (int i = 0; i < kThreads; ++i) {
    if (pthread_create(&threads[i], &small, live, NULL) != 0) return kCannotBeTried;
  }
  pthread_barrier_wait(&g_all);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  if (g_questions > kThreads * kMostQuestions) {
    printf("%d questions for %d threads\n", g_questions, kThreads);
    return 1;
  }
  puts("done");
  return 0;
}
