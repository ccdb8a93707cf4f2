/* A program that uses gpupeak.h and links to nothing: a no-op without the preload. What it knows
 * better than the report it says itself, in lines of "truth NAME BYTES" on stderr, if it is
 * measured. */
#include <stdio.h>
#include <stdlib.h>

#include "gpupeak/gpupeak.h"

static void use(size_t bytes) {
  void* volatile block = malloc(bytes); /* volatile: else the compiler leaves both calls out */
  free(block);
}

#if !defined(__cplusplus)
static void in_block(void) {
  GPUPEAK_PHASE("block");
  use(4000000);
}
#else
static void in_block(void) {
  gpupeak::Phase phase("block");
  gpupeak::Tag tag("object");
  use(4000000);
}
#endif

static void say(const char* name, const struct gpupeak_usage* usage) {
  fprintf(stderr, "truth %s.live %llu\ntruth %s.peak %llu\ntruth %s.window %llu\n", name,
          (unsigned long long)usage->live_bytes, name, (unsigned long long)usage->peak_bytes, name,
          (unsigned long long)usage->window_peak_bytes);
}

int main(void) {
  static char pool[1 << 20];
  struct gpupeak_usage usage;
  gpupeak_arena arena;

  gpupeak_phase_push("load");
  use(1000000);
  gpupeak_phase_push("inner");
  use(2000000);
  gpupeak_mark("half way");
  gpupeak_phase_pop();
  gpupeak_phase_pop();
  gpupeak_phase_pop(); /* one too many does nothing */

  gpupeak_tag_push("weights");
  use(3000000);
  gpupeak_tag_pop();
  gpupeak_tag_pop();
  in_block();

  if (gpupeak_get_usage(GPUPEAK_HEAP, 0, &usage)) say("before", &usage);
  gpupeak_reset_window();
  use(500000);
  if (gpupeak_get_usage(GPUPEAK_HEAP, 0, &usage)) say("after", &usage);
  if (gpupeak_get_usage(GPUPEAK_DEVICE, 99, &usage)) say("none", &usage);

  arena = gpupeak_arena_create("my pool", pool, sizeof pool);
  gpupeak_arena_alloc(arena, pool, 1000, "first");
  gpupeak_arena_alloc(arena, pool + 4096, 70000, "second");
  gpupeak_arena_alloc(arena, pool + 131072, 30000, NULL);
  gpupeak_arena_free(arena, pool);
  gpupeak_arena_alloc(arena, pool + 4096, 60000, NULL); /* smaller now */
  gpupeak_arena_alloc(arena, pool, 500, "first");
  gpupeak_arena_free(arena, pool + 999); /* never handed out */
  gpupeak_arena_free(arena, pool + 131072);
  gpupeak_arena_reset(arena);
  gpupeak_arena_alloc(arena, pool, 2000, "first");
  gpupeak_arena_destroy(arena);
  gpupeak_arena_alloc(arena, pool, 3000, "too late");
  puts("done");
  return 0;
}
