/* Says what it was started with, and which libraries of these it has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int count, char** argv) {
  char line[4096];
  int ours = 0;
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps && fgets(line, sizeof line, maps)) ours |= strstr(line, "libgpupeak.so") != NULL;
  const char* preload = getenv("LD_PRELOAD");
  printf("%d arguments, %s, theirs %s\n", count, ours ? "recorded" : "not recorded",
         preload && strstr(preload, "libm.so.6") ? "kept" : "lost");
  return count != 2 || strcmp(argv[1], "1");
}
