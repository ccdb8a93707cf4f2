// Names of its own that another file has, too.
#include "book.h"

static __attribute__((noinline)) void setup() {
  LEAK();
  asm volatile("");
}

void other_file(Request request) {
  setup();
  in_header(request);
  LEAK();
  asm volatile("");
}
