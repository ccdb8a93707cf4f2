/* Allocates, takes away from itself whatever opening a file needs, and allocates much more.
 * usage: keep_logging emfile|closed|setuid|chroot|removed|cut:BYTES|plain LOG FOLDER */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { kBlocks = 40000, kBytes = 1000 };

static void allocate(int rounds) {
  for (int round = 0; round < rounds; ++round) {
    static __thread void* blocks[kBlocks];
    for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(kBytes);
    for (int i = 0; i < kBlocks; ++i) free(blocks[i]);
  }
}

static void* thread(void* argument) {
  allocate(2);
  return argument;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const char* what = argv[1];
  allocate(1);
  if (strcmp(what, "emfile") == 0) {
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_NOFILE, &none) != 0) return 3;
  } else if (strcmp(what, "closed") == 0) {
    for (int fd = 3; fd < 1024; ++fd) close(fd);
  } else if (strcmp(what, "setuid") == 0) {
    if (setgid(65534) != 0 || setuid(65534) != 0) return 3;
  } else if (strcmp(what, "chroot") == 0) {
    if (chroot(argv[3]) != 0 || chdir("/") != 0) return 3;
  } else if (strcmp(what, "removed") == 0) {
    char moved[4096];
    snprintf(moved, sizeof moved, "%s.moved", argv[2]);
    if (rename(argv[2], moved) != 0) return 3;
  } else if (strncmp(what, "cut:", 4) == 0) {
    if (truncate(argv[2], atol(what + 4)) != 0) return 3;
  }
  pthread_t other;
  if (pthread_create(&other, NULL, thread, NULL) != 0) return 4;
  allocate(5);
  pthread_join(other, NULL);
  void* largest = malloc(100000000); /* the peak, at the very end */
  if (largest == NULL) return 5;
  free(largest);
  puts("truth heap_peak_at_least 100000000");
  return 0;
}
