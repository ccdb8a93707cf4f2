// Preloaded into the command: a file whose name ends with SLOW_FILE opens after SLOW_SECONDS, as on a
// disk that is far away. With OPEN_KILLS who opens it dies, as of damaged symbols; "child": unless it
// is the command itself.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pid_t command;
__attribute__((constructor)) static void begin(void) {
  command = getpid();
}

static int slowly(const char* function, const char* path, int flags, int mode) {
  const char* slow = getenv("SLOW_FILE");
  const size_t length = strlen(path), wanted = slow != NULL ? strlen(slow) : 0;
  if (wanted > 0 && length >= wanted && strcmp(path + length - wanted, slow) == 0) {
    const char* kills = getenv("OPEN_KILLS");
    if (kills != NULL && (strcmp(kills, "child") != 0 || getpid() != command)) raise(SIGSEGV);
    const char* seconds = getenv("SLOW_SECONDS");
    if (seconds != NULL) sleep((unsigned)atoi(seconds));
  }
  return ((int (*)(const char*, int, int))dlsym(RTLD_NEXT, function))(path, flags, mode);
}

int open(const char* path, int flags, ...) {
  return slowly("open", path, flags, 0644);
}
int open64(const char* path, int flags, ...) {
  return slowly("open64", path, flags, 0644);
}
