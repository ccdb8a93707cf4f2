/* The same two calls again and again: a log as uniform as a program's can be. usage: same_pairs PAIRS */
#include <stdlib.h>

int main(int argc, char** argv) {
  for (long left = argc > 1 ? atol(argv[1]) : 0; left > 0; --left) {
    char* volatile block = malloc(100);
    free(block);
  }
  return 9;
}
