/* 64 MiB that are the process's own, each time by another way. argv: the way. Prints the kernel's word of what is resident and no
 * file's, at its highest. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <unistd.h>

enum { kBytes = 64 << 20, kPage = 4096 };
static char g_static[kBytes];

static void fail(const char* what) {
  perror(what);
  exit(77);
}

static char* touch(char* at, size_t bytes) {
  if (at == MAP_FAILED) fail("mmap");
  return memset(at, 1, bytes);
}

static char* map(size_t bytes, int prot, int flags, int file) {
  return mmap(0, bytes, prot, flags | MAP_PRIVATE, file, 0);
}

static void say(void) {
  char line[200];
  unsigned long resident = 0, files = 0;
  FILE* file = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, file)) {
    sscanf(line, "VmHWM: %lu", &resident);
    sscanf(line, "RssFile: %lu", &files);
  }
  printf("%lu\n", (resident - files) << 10);
  fclose(file);
}

__attribute__((noinline)) static void fill_table(void) {
  for (int i = 0; i < 64; ++i) memset(sbrk(kBytes / 64), i, kBytes / 64);
}

__attribute__((noinline)) static char* reserve_much(void) {
  return map(16ul << 30, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_NORESERVE, -1);
}

int main(int count, char** arguments) {
  const char* way = count > 1 ? arguments[1] : "";
  const int all = PROT_READ | PROT_WRITE;
  if (!strcmp(way, "sbrk")) {
    fill_table();
    sbrk(-kBytes / 2);
  }
  if (!strcmp(way, "static")) touch(g_static, kBytes);
  if (!strcmp(way, "written_file")) {
    int file = open("data.bin", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (ftruncate(file, kBytes)) fail("ftruncate");
    touch(map(kBytes, all, 0, file), kBytes);
    unlink("data.bin");
  }
  if (!strcmp(way, "dev_zero")) touch(map(kBytes, all, 0, open("/dev/zero", O_RDWR)), kBytes);
  if (!strcmp(way, "memfd")) {
    int file = memfd_create("a", 0);
    if (ftruncate(file, kBytes)) fail("ftruncate");
    touch(mmap(0, kBytes, all, MAP_SHARED, file, 0), kBytes);
  }
  if (!strcmp(way, "system_v")) {
    int id = shmget(IPC_PRIVATE, kBytes, IPC_CREAT | 0600);
    char* at = shmat(id, 0, 0);
    shmctl(id, IPC_RMID, 0);
    touch(at, kBytes);
    say();
    shmdt(at);
    return 0;
  }
  if (!strcmp(way, "growing_stack")) {
    struct rlimit limit = {512 << 20, RLIM_INFINITY};
    setrlimit(RLIMIT_STACK, &limit);
    char* hole = map(256 << 20, PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE, -1);
    munmap(hole, 256 << 20);
    char* top = mmap(hole + (256 << 20) - 2 * kPage, kPage, all,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_GROWSDOWN | MAP_FIXED, -1, 0);
    if (top == MAP_FAILED) fail("mmap");
    for (long i = 0; i < kBytes; i += kPage) top[-i] = 1;
  }
  if (!strcmp(way, "resting")) {
    /* It begins where an arena of malloc could. */
    char* room = map(2ul * kBytes, PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE, -1);
    char* at = (char*)(((unsigned long)room + kBytes - 1) & -(unsigned long)kBytes);
    munmap(room, at - room);
    munmap(at + kBytes / 2, room + 2ul * kBytes - (at + kBytes / 2));
    mprotect(at, kBytes / 2, all);
    touch(at, kBytes / 2);
    mprotect(at, kBytes / 2, PROT_NONE);
    touch(map(kBytes / 2, all, MAP_ANONYMOUS, -1), kBytes / 2);
  }
  if (!strcmp(way, "pkey")) {
    char* at = map(1 << 30, PROT_NONE, MAP_ANONYMOUS | MAP_NORESERVE, -1);
    if (pkey_mprotect(at, kBytes, all, -1)) fail("pkey_mprotect");
    touch(at, kBytes);
  }
  if (!strcmp(way, "reserved")) touch(reserve_much(), kBytes);
  if (!strcmp(way, "malloc")) {
    char* volatile at = touch(malloc(kBytes), kBytes);
    (void)at;
  }
  say();
  return 0;
}
