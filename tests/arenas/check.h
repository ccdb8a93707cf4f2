// What the clients of the stand-in arenas share: a client that is wrong itself says where.
#pragma once

#include <cstdio>
#include <cstdlib>

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (false)
