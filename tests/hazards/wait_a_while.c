/* Allocates a little; with "wait" it says so and goes on only when told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char** argv) {
  void* block = malloc(100000);
  if (block == NULL) return 1;
  if (argc > 1 && strcmp(argv[1], "wait") == 0) {
    puts("waiting");
    fflush(stdout);
    getchar();
  }
  free(block);
  puts("done");
  return 0;
}
