/* A library that allocates. With TABLE most of its data is closed after it was loaded, else it is
 * open, and before it are so many other pages that the first fits into the room that it leaves. */
#include <stdlib.h>

void* take(void) { return malloc(100000); }

#ifdef TABLE
#define FOUR(x) x, x, x, x
#define MANY(x) FOUR(FOUR(FOUR(FOUR(x))))
void* (*const take_table[])(void) = {FOUR(FOUR(MANY(take)))};
#else
const char take_rest[160 << 10] = {1};
char take_room[24 << 10] = {1};
#endif
