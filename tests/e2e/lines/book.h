// Blocks that are never freed, each of a size of its own, and the program's own book of them: where each was asked for.
#pragma once
#include <stdio.h>
#include <stdlib.h>

extern void *volatile kept;
extern int next_size;
extern int of_macro;

#define BOOK(n) printf("%d %s %d\n", (n), __FILE__, __LINE__)
/// One statement on one line of the source, whatever it is made of. Its end differs from that of all others, so that no compiler makes one of two.
#define LEAK() do { const int n_ = next_size += 4096; BOOK(n_); kept = malloc((size_t)n_); asm volatile("# %c0" : : "i"(__LINE__)); } while (0)

struct Request {
  int id;
};

inline void in_header(Request request) {
  if (request.id >= 0) LEAK();
}

__attribute__((noinline)) void other_file(Request request);
