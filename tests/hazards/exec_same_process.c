/* The same process goes on with another program: the log is the later one's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char** argv) {
  char* block = malloc(argc > 1 ? 2000000 : 1000000);
  memset(block, 1, 1000);
  if (argc > 1) {
    printf("second %d\n", block[10]);
    return 6;
  }
  printf("first %d\n", block[10]);
  fflush(stdout);
  execl("/proc/self/exe", argv[0], "again", (char*)0);
  return 1;
}
