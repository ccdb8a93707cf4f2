/* 50,000 frames, an allocation in each thousandth. */
#include <stdio.h>
#include <stdlib.h>
static volatile int g_sink;
static void __attribute__((noinline)) down(int n) {
  if (n % 1000 == 0) free(malloc(100));
  if (n > 0) down(n - 1);
  g_sink = n;
}
int main(void) {
  down(50000);
  puts("done");
  return 0;
}
