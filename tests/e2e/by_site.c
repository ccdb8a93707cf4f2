/* Memory of several call sites, a part of which is touched. argv: the case. Prints what each site has touched, its name and bytes, and what is
 * anonymous of all, by the kernel. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define SITE __attribute__((noinline)) static char*

static char* map(size_t bytes, int flags) {
  char* at = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (at == MAP_FAILED) exit(77);
  return at;
}
SITE reserve(size_t bytes) { return map(bytes, MAP_NORESERVE) + 0; }
SITE part(size_t bytes) { return map(bytes, 0) + 0; }
SITE whole(size_t bytes) { return map(bytes, 0) + 0; }
SITE block(size_t bytes) { return (char*)malloc(bytes) + 0; }

static void touch(char* at, size_t bytes) { memset(at, 1, bytes); }
static void say(const char* site, size_t bytes) { printf("%s %zu\n", site, bytes); }

static void say_anonymous(void) {
  char line[200];
  size_t kib = 0, sum = 0;
  FILE* file = fopen("/proc/self/smaps", "r");
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "Anonymous: %zu", &kib) == 1) sum += kib;
  fclose(file);
  say("all", sum << 10);
}

/* The first look reads the kernel's list, which knows mappings as a whole. Later ones know pages. A look soon after the program's begin is left
 * out. */
static void be_looked_at(void) {
  char* early = block(8 * MIB);
  touch(early, 8 * MIB);
  usleep(200000);
  free(early);
}

int main(int count, char** arguments) {
  const char* way = count > 1 ? arguments[1] : "";
  if (!strcmp(way, "reserved")) {
    touch(reserve((size_t)16 << 30), 100 * MIB);
    touch(whole(300 * MIB), 300 * MIB);
    say("reserve", 100 * MIB);
    say("whole", 300 * MIB);
  } else if (!strcmp(way, "side_by_side")) {
    be_looked_at();
    char *first = part(400 * MIB), *second = whole(200 * MIB), *third = block(1024 * MIB);
    touch(first + 10 * MIB, 110 * MIB);
    touch(second, 200 * MIB);
    touch(third, 120 * MIB);
    say("part", 110 * MIB);
    say("whole", 200 * MIB);
    say("block", 120 * MIB);
  } else if (!strcmp(way, "one_mapping")) {  /* of the kernel's, of two sites, and one look at the list */
    touch(part(400 * MIB), 50 * MIB);
    touch(whole(200 * MIB), 200 * MIB);
    say("part", 50 * MIB);
    say("whole", 200 * MIB);
  } else if (!strcmp(way, "given_back")) {
    be_looked_at();
    char* at = part(260 * MIB);
    touch(at, 260 * MIB);
    madvise(at + 30 * MIB, 150 * MIB, MADV_DONTNEED);
    touch(whole(400 * MIB), 400 * MIB);
    say("part", 110 * MIB);
    say("whole", 400 * MIB);
  } else if (!strcmp(way, "many")) {
    be_looked_at();
    for (int i = 0; i < 40; ++i) {
      touch(part(8 * MIB) + MIB, 2 * MIB);
      touch(block(4 * MIB), 4 * MIB);
      mmap(0, MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    touch(whole(300 * MIB) + 75 * MIB, 150 * MIB); /* far from all others, wherever the kernel puts it */
    say("part", 80 * MIB);
    say("block", 160 * MIB);
    say("whole", 150 * MIB);
  } else if (!strcmp(way, "forked")) {
    touch(part(200 * MIB), 110 * MIB);
    if (fork() == 0) {
      be_looked_at();
      touch(whole(300 * MIB), 120 * MIB);
      exit(0);
    }
    wait(0);
    say("part", 110 * MIB);
    say("whole", 120 * MIB);
  }
  say_anonymous();
  return 0;
}
