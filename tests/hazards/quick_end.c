/* A program that ends by quick_exit, after which no destructor runs. */
#include <stdio.h>
#include <stdlib.h>

static void say(void) {
  printf("at the end\n");
  fflush(stdout);
}

int main(void) {
  void* volatile block = malloc(1000000);
  at_quick_exit(say);
  quick_exit(block == NULL ? 1 : 4);
}
