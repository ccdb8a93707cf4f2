/* Enough events for a log of several MiB; ends by itself with a code of its own. */
#include <stdio.h>
#include <stdlib.h>
int main(void) {
  void* live[100] = {0};
  for (int i = 0; i < 1000000; ++i) {
    free(live[i % 100]);
    live[i % 100] = malloc((size_t)i * 7919 % 3000);
  }
  puts("done");
  return 9;
}
