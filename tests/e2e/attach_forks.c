/* Loads libraries and forks, once somebody has attached to it. Told by lines of standard input, each answered by one.
 *   load N        N bytes of the first library's, which is loaded for it, and kept
 *   churn         from now on a thread loads and unloads the second library all the time
 *   children N    forks N times; each child loads the third library, allocates there and ends; answers how many did
 *   child         forks one that does so again and again till it is killed; answers its process id
 *   kill          kills it
 * usage: attach_forks LIBRARY LIBRARY LIBRARY */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char** g_libraries;

typedef void* (*Allocate)(size_t);

/* A child that is forked while another thread is in dlopen may find the loader's lock taken, with or without gpupeak: so
 * nobody is. dlsym may be under way. */
static pthread_mutex_t g_loading = PTHREAD_MUTEX_INITIALIZER;

static Allocate load(const char* path, void** library) {
  pthread_mutex_lock(&g_loading);
  *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  pthread_mutex_unlock(&g_loading);
  Allocate allocate = NULL;
  if (*library != NULL) *(void**)&allocate = dlsym(*library, "plugin_allocate");
  return allocate;
}

static int load_and_leave(const char* path) {
  void* library;
  const Allocate allocate = load(path, &library);
  if (allocate == NULL) return 1;
  free(allocate(100));
  pthread_mutex_lock(&g_loading);
  const int result = dlclose(library);
  pthread_mutex_unlock(&g_loading);
  return result;
}

static void* churn(void* path) {
  while (load_and_leave(path) == 0) {
  }
  return NULL;
}

static pid_t fork_outside_of_dlopen(void) {
  pthread_mutex_lock(&g_loading);
  const pid_t child = fork();
  pthread_mutex_unlock(&g_loading);
  return child;
}

static int children(int count) {
  int good = 0;
  for (int i = 0; i < count; ++i) {
    const pid_t child = fork_outside_of_dlopen();
    if (child == 0) {
      alarm(2);
      _exit(load_and_leave(g_libraries[2]));
    }
    int status = 0;
    good += child > 0 && waitpid(child, &status, 0) == child && status == 0;
  }
  return good;
}

static pid_t lasting_child(void) {
  const pid_t child = fork_outside_of_dlopen();
  if (child != 0) return child;
  alarm(60);
  while (load_and_leave(g_libraries[2]) == 0) usleep(1000);
  _exit(1);
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  g_libraries = argv + 1;
  char line[256];
  void* library;
  pid_t child = 0;
  setvbuf(stdout, NULL, _IOLBF, 0);
  puts("ready");
  while (fgets(line, sizeof line, stdin) != NULL) {
    int number = 0;
    if (sscanf(line, "load %d", &number) == 1) {
      const Allocate allocate = load(g_libraries[0], &library);
      number = allocate != NULL && allocate((size_t)number) != NULL;
    } else if (strcmp(line, "churn\n") == 0) {
      pthread_t thread;
      number = pthread_create(&thread, NULL, churn, g_libraries[1]);
    } else if (sscanf(line, "children %d", &number) == 1) {
      number = children(number);
    } else if (strcmp(line, "child\n") == 0) {
      number = child = lasting_child();
    } else if (strcmp(line, "kill\n") == 0) {
      kill(child, SIGKILL);
      waitpid(child, NULL, 0);
    }
    printf("%d\n", number);
  }
  puts("done");
  fflush(stdout);
  _exit(0);
}
