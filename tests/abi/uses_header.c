/* A program that uses gpupeak.h and links to nothing: a no-op without the preload. */
#include <stdio.h>
#include <stdlib.h>

#include "gpupeak/gpupeak.h"
int main(void) {
  gpupeak_phase_push("load");
  void* volatile block = malloc(1000000); /* volatile: else the compiler leaves both calls out */
  free(block);
  gpupeak_phase_push("inner");
  block = malloc(2000000);
  free(block);
  gpupeak_phase_pop();
  gpupeak_phase_pop();
  gpupeak_phase_pop(); /* one too many does nothing */
  puts("done");
  return 0;
}
