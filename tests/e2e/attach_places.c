/* Programs for attach_places.py: each stands at a place where attaching could do harm. None has a
 * signal handler, so no call of theirs may fail with EINTR. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

void hold_here(void);

static void ready(void) {
  puts("ready");
  fflush(stdout);
}

static void* wait_for_good(void* unused) {
  for (;;) pause();
  return unused;
}

static void* confine(void* unused) {
  struct sock_filter all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  struct sock_fprog program = {1, &all};
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) abort();
  ready();
  return wait_for_good(unused);
}

static void start(void* (*what)(void*)) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, what, NULL) != 0) abort();
}

static void begin_vfork(void) {
  ready();
  const pid_t child = vfork();
  if (child == 0) {
    char c;
    if (read(0, &c, 1) < 0) _exit(1);
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static int waits(const char* kind) {
  const struct timespec third = {0, 300000000};
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  sigprocmask(SIG_BLOCK, &set, NULL);
  const int events = epoll_create1(0), sem = semget(IPC_PRIVATE, 1, 0600);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) abort();
  const struct timeval limit = {0, 300000};
  setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  fcntl(0, F_SETFL, O_NONBLOCK);
  ready();
  int failed = 0;
  for (char c; read(0, &c, 1) != 0 && failed == 0;) {
    errno = 0;
    struct epoll_event event;
    struct sembuf take = {0, -1, 0};
    if (strcmp(kind, "epoll") == 0) epoll_wait(events, &event, 1, 300);
    if (strcmp(kind, "semaphore") == 0) semtimedop(sem, &take, 1, &third);
    if (strcmp(kind, "signal") == 0) sigtimedwait(&set, NULL, &third);
    struct pollfd input = {0, POLLIN, 0};
    if (strcmp(kind, "poll") == 0) poll(&input, 1, -1);
    if (strcmp(kind, "socket") == 0) recv(ends[0], &c, 1, 0);
    failed = errno == EINTR;
  }
  semctl(sem, 0, IPC_RMID);
  return failed;
}

/* Loads a library from beside the program, and lets it allocate. */
static void* load(const char* program, const char* name) {
  char path[4096];
  snprintf(path, sizeof path, "%.*s%s", (int)(strrchr(program, '/') - program) + 1, program, name);
  void* const library = dlopen(path, RTLD_LAZY);
  if (library == NULL) abort();
  void* (*take)(void);
  *(void**)&take = dlsym(library, "take");
  free(take());
  return library;
}

int main(int count, char** words) {
  const char* const what = words[count - 1];
  if (strcmp(what, "held") == 0) {
    ready();
    hold_here();
  } else if (strcmp(what, "filter") == 0) {
    start(confine);
    getchar();
  } else if (strcmp(what, "vfork") == 0) {
    begin_vfork();
  } else if (strcmp(what, "threads") == 0) {
    for (int i = 0; i < 30; ++i) start(wait_for_good);
    ready();
    getchar();
  } else if (strcmp(what, "replaced") == 0) {
    void* const first = load(words[0], "libattach_open.so");
    ready();
    char c;
    if (read(0, &c, 1) != 1) return 1;
    dlclose(first);
    load(words[0], "libattach_closed.so");
    ready();
    if (read(0, &c, 1) != 0) return 1;
  } else if (waits(what) != 0) {
    return 1;
  }
  puts("done");
  return 0;
}
