/* Ways in which a program starts another one. usage: start_programs WAY PROGRAM [ARGUMENT...]; its exit code is the program's. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

static int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

static int wait_for(pid_t child) {
  int status = 0;
  if (child < 0) return 99;
  waitpid(child, &status, 0);
  return code_of(status);
}

static int by_vfork(char** command) {
  const pid_t child = vfork();
  if (child == 0) {
    execv(command[0], command);
    _exit(98);
  }
  return wait_for(child);
}

static int by_spawn(char** command, char** environment) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  pid_t child = -1;
  if (posix_spawn(&child, command[0], &actions, NULL, command, environment) != 0) return 97;
  return wait_for(child);
}

static int exec_it(void* data) {
  char** command = data;
  execv(command[0], command);
  _exit(98);
}

static void* exec_in_thread(void* data) {
  exec_it(data);
  return NULL;
}

static int by_clone(char** command) {
  static char stack[64 << 10] __attribute__((aligned(16)));
  return wait_for(clone(exec_it, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, command));
}

static int by_fork(char** command) {
  const pid_t child = fork();
  if (child == 0) exec_it(command);
  return wait_for(child);
}

/* The parent of what is started has gone by then; this process waits for the other end of a pipe. */
static int as_daemon(char** command) {
  int ends[2];
  if (pipe(ends) != 0) return 96;
  const pid_t middle = fork();
  if (middle == 0) {
    setsid();
    const pid_t last = fork();
    if (last != 0) _exit(0);
    close(ends[0]);
    const char code = (char)by_fork(command);
    _exit(write(ends[1], &code, 1) == 1 ? 0 : 1);
  }
  wait_for(middle);
  close(ends[1]);
  char code = 95;
  return read(ends[0], &code, 1) == 1 ? code : 94;
}

static int prefork(char** command) {
  pid_t workers[3];
  int worst = 0;
  for (int i = 0; i < 3; ++i) {
    workers[i] = fork();
    if (workers[i] == 0) exec_it(command);
  }
  for (int i = 0; i < 3; ++i) {
    const int code = wait_for(workers[i]);
    if (code > worst) worst = code;
  }
  return worst;
}

int main(int count, char** arguments) {
  static char* nothing[] = {NULL};
  static char* other[] = {"LD_PRELOAD=libm.so.6", NULL};
  if (count < 3) return 2;
  char** command = arguments + 2;
  const char* way = arguments[1];
  if (strcmp(way, "vfork") == 0) return by_vfork(command);
  if (strcmp(way, "fork") == 0) return by_fork(command);
  if (strcmp(way, "spawn") == 0) return by_spawn(command, environ);
  if (strcmp(way, "spawn_cleaned") == 0) return by_spawn(command, nothing);
  if (strcmp(way, "spawn_replaced") == 0) return by_spawn(command, other);
  if (strcmp(way, "clone") == 0) return by_clone(command);
  if (strcmp(way, "daemon") == 0) return as_daemon(command);
  if (strcmp(way, "prefork") == 0) return prefork(command);
  if (strcmp(way, "exec") == 0) exec_it(command);
  if (strcmp(way, "exec_cleaned") == 0) execve(command[0], command, nothing);
  if (strcmp(way, "thread") == 0) {
    pthread_t thread;
    pthread_create(&thread, NULL, exec_in_thread, command);
    pthread_join(thread, NULL);
  }
  return 3;
}
