/* A library that looks like a driver: a thread in it may hold the driver's lock. */
#include <stdio.h>

int cuInit(unsigned flags) {
  return (int)flags;
}

void hold_here(void) {
  for (int c = 0; c != '\n';) c = getchar(); /* no tail call: this function stays on the stack */
}
