/* Waits for children in each way, some of them from a signal handler: results, statuses and errno are the kernel's. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t g_reaped, g_killed;

static void reap(int signal) {
  (void)signal;
  const int saved = errno;
  int status;
  while (waitpid(-1, &status, WNOHANG) > 0) {
    ++g_reaped;
    g_killed += WIFSIGNALED(status);
  }
  errno = saved;
}

static pid_t child(int signal) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  if (signal != 0) raise(signal);
  _exit(3);
}

static void say(const char* how, pid_t got, pid_t wanted, int status) {
  printf("%s: %s, status %x\n", how, got == wanted ? "the child" : strerror(errno), status);
}

static void* wait_until_cancelled(void* unused) {
  waitpid((pid_t)(intptr_t)unused, NULL, 0);
  return NULL;
}

int main(void) {
  const int signals[] = {0, SIGKILL, SIGTERM};
  setvbuf(stdout, NULL, _IONBF, 0);
  for (int i = 0; i < 3; ++i) {
    struct rusage usage;
    siginfo_t info;
    int status = 0;
    pid_t pid = child(signals[i]);
    say("waitpid", waitpid(pid, &status, 0), pid, status);
    pid = child(signals[i]);
    say("waitpid without a status", waitpid(pid, NULL, 0), pid, 0);
    pid = child(signals[i]);
    say("wait", wait(&status), pid, status);
    pid = child(signals[i]);
    say("wait3", wait3(&status, 0, &usage), pid, status);
    pid = child(signals[i]);
    say("wait4", wait4(pid, &status, 0, NULL), pid, status);
    pid = child(signals[i]);
    memset(&info, 0, sizeof info);
    printf("waitid, left there: %d", waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
    printf(" %s, code %d, status %d\n", info.si_pid == pid ? "the child" : "?", info.si_code, info.si_status);
    printf("waitid without an answer: %d\n", waitid(P_PID, (id_t)pid, NULL, WEXITED));
    errno = 0;
    const int none = waitpid(pid, &status, 0);
    printf("no child: %d, %s\n", none, strerror(errno));
  }
  const pid_t sleeper = fork();
  if (sleeper == 0) {
    pause();
    _exit(0);
  }
  printf("not yet: %d\n", waitpid(sleeper, NULL, WNOHANG));
  pthread_t thread;
  void* result = NULL;
  pthread_create(&thread, NULL, wait_until_cancelled, (void*)(intptr_t)sleeper);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("a thread that waits is %s\n", result == PTHREAD_CANCELED ? "cancelled" : "not cancelled");
  signal(SIGCHLD, reap);
  kill(sleeper, SIGKILL);
  for (int i = 0; i < 30; ++i) {
    child(i % 2 == 0 ? SIGKILL : 0);
    for (int j = 0; j < 1000; ++j) free(malloc((size_t)j));
  }
  while (g_reaped < 31) usleep(1000);
  printf("a handler reaped %d, %d of them killed\n", (int)g_reaped, (int)g_killed);
  return 0;
}
