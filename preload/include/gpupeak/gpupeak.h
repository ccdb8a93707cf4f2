/*
 * gpupeak.h: what a program may say to gpupeak about itself, and ask it. Include it, link nothing:
 * every function is a weak reference, found when libgpupeak.so is preloaded and a no-op when it is
 * not. All may be called from any thread; none fails, and none keeps a pointer that it is given.
 */
#ifndef GPUPEAK_GPUPEAK_H
#define GPUPEAK_GPUPEAK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A sub-allocator of the program's; 0: not recorded. */
typedef uint64_t gpupeak_arena;

/* What gpupeak_get_usage() is asked for. Device kinds add up to GPUPEAK_DEVICE, but for MANAGED. */
enum gpupeak_what {
  GPUPEAK_HEAP = 0, /* of malloc & co., usable bytes; other threads' last 64 KiB may be missing */
  GPUPEAK_PINNED = 1,
  GPUPEAK_REGISTERED = 2,
  GPUPEAK_MANAGED = 3, /* of all devices */
  GPUPEAK_DEVICE = 16, /* handed out by the driver, all kinds below */
  GPUPEAK_DEVICE_LINEAR = 17,
  GPUPEAK_DEVICE_POOL = 18,
  GPUPEAK_DEVICE_VMM = 19,
  GPUPEAK_DEVICE_ARRAY = 20,
  GPUPEAK_DEVICE_GRAPH = 21
};
struct gpupeak_usage {
  uint64_t live_bytes;
  uint64_t peak_bytes;        /* since recording began */
  uint64_t window_peak_bytes; /* since gpupeak_reset_window(), or since recording began */
  uint64_t alloc_count;       /* HEAP and DEVICE, else 0 */
};

/* The library's own functions. Call those below, which first check that the library is there. */
__attribute__((weak)) void gpupeak_api_phase_push(const char* name);
__attribute__((weak)) void gpupeak_api_phase_pop(void);
__attribute__((weak)) void gpupeak_api_mark(const char* name);
__attribute__((weak)) void gpupeak_api_tag_push(const char* name);
__attribute__((weak)) void gpupeak_api_tag_pop(void);
__attribute__((weak)) gpupeak_arena gpupeak_api_arena_create(const char* name, const void* address,
                                                             size_t bytes);
__attribute__((weak)) void gpupeak_api_arena_destroy(gpupeak_arena arena);
__attribute__((weak)) void gpupeak_api_arena_reset(gpupeak_arena arena);
__attribute__((weak)) void gpupeak_api_arena_alloc(gpupeak_arena arena, const void* address,
                                                   size_t bytes, const char* name);
__attribute__((weak)) void gpupeak_api_arena_free(gpupeak_arena arena, const void* address);
__attribute__((weak)) int gpupeak_api_usage(int what, int device, struct gpupeak_usage* usage);
__attribute__((weak)) void gpupeak_api_reset_window(void);

/* Opens a phase named `name` on the calling thread; phases nest. */
static inline void gpupeak_phase_push(const char* name) {
  if (gpupeak_api_phase_push) gpupeak_api_phase_push(name);
}
/* Closes the calling thread's innermost phase that gpupeak_phase_push opened; without one it does
 * nothing. */
static inline void gpupeak_phase_pop(void) {
  if (gpupeak_api_phase_pop) gpupeak_api_phase_pop();
}

/* Marks this instant. */
static inline void gpupeak_mark(const char* name) {
  if (gpupeak_api_mark) gpupeak_api_mark(name);
}

/* What the calling thread allocates from here on is for `name`: a layer, weights, a request. Tags
 * nest. */
static inline void gpupeak_tag_push(const char* name) {
  if (gpupeak_api_tag_push) gpupeak_api_tag_push(name);
}
static inline void gpupeak_tag_pop(void) {
  if (gpupeak_api_tag_pop) gpupeak_api_tag_pop();
}

/* Declares a sub-allocator, which hands out parts of memory that it got elsewhere. The report shows
 * how much of that memory it has in use; this counts towards no other sum. `address` and `bytes`:
 * the memory that it manages; NULL and 0 if that is in several pieces or grows. */
static inline gpupeak_arena gpupeak_arena_create(const char* name, const void* address,
                                                 size_t bytes) {
  return gpupeak_api_arena_create ? gpupeak_api_arena_create(name, address, bytes) : 0;
}
static inline void gpupeak_arena_destroy(gpupeak_arena arena) {
  if (gpupeak_api_arena_destroy) gpupeak_api_arena_destroy(arena);
}
/* Says that all that the arena has handed out is free again. */
static inline void gpupeak_arena_reset(gpupeak_arena arena) {
  if (gpupeak_api_arena_reset) gpupeak_api_arena_reset(arena);
}
/* Call it after the arena has handed out `bytes` at `address`. If the address is in use already,
 * its size and name are replaced. `name` may be NULL. */
static inline void gpupeak_arena_alloc(gpupeak_arena arena, const void* address, size_t bytes,
                                       const char* name) {
  if (gpupeak_api_arena_alloc) gpupeak_api_arena_alloc(arena, address, bytes, name);
}
/* Call it before the arena may hand out `address` again. */
static inline void gpupeak_arena_free(gpupeak_arena arena, const void* address) {
  if (gpupeak_api_arena_free) gpupeak_api_arena_free(arena, address);
}

/* Reads a counter. `device` matters for the device kinds alone. Returns 1; or 0, with zeros, if the
 * counter is not measured. */
static inline int gpupeak_get_usage(enum gpupeak_what what, int device,
                                    struct gpupeak_usage* usage) {
  usage->live_bytes = usage->peak_bytes = usage->window_peak_bytes = usage->alloc_count = 0;
  return gpupeak_api_usage ? gpupeak_api_usage((int)what, device, usage) : 0;
}
/* Begins a new window: window peaks start from what is live now. The peaks of the run stay. */
static inline void gpupeak_reset_window(void) {
  if (gpupeak_api_reset_window) gpupeak_api_reset_window();
}

#ifdef __cplusplus
} /* extern "C" */

namespace gpupeak {

/* A phase that lasts as long as this object. */
class Phase {
 public:
  explicit Phase(const char* name) { gpupeak_phase_push(name); }
  ~Phase() { gpupeak_phase_pop(); }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;
};

/* A tag that lasts as long as this object. */
class Tag {
 public:
  explicit Tag(const char* name) { gpupeak_tag_push(name); }
  ~Tag() { gpupeak_tag_pop(); }
  Tag(const Tag&) = delete;
  Tag& operator=(const Tag&) = delete;
};

/* A sub-allocator that is declared as long as this object lives. */
class Arena {
 public:
  explicit Arena(const char* name, const void* address = nullptr, size_t bytes = 0)
      : arena_(gpupeak_arena_create(name, address, bytes)) {}
  ~Arena() { gpupeak_arena_destroy(arena_); }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  void allocated(const void* address, size_t bytes, const char* name = nullptr) {
    gpupeak_arena_alloc(arena_, address, bytes, name);
  }
  void freed(const void* address) { gpupeak_arena_free(arena_, address); }
  void reset() { gpupeak_arena_reset(arena_); }

 private:
  gpupeak_arena arena_;
};

} /* namespace gpupeak */
#endif

/* In C, with GCC or Clang: a phase until the end of the block.  GPUPEAK_PHASE("load"); */
#if !defined(__cplusplus) && defined(__GNUC__)
static inline void gpupeak_end_phase(const int* unused) {
  (void)unused;
  gpupeak_phase_pop();
}
#define GPUPEAK_JOIN_(a, b) a##b
#define GPUPEAK_JOIN(a, b) GPUPEAK_JOIN_(a, b)
#define GPUPEAK_PHASE(name)                                                                        \
  __attribute__((cleanup(gpupeak_end_phase), unused)) int GPUPEAK_JOIN(gpupeak_phase_, __LINE__) = \
      (gpupeak_phase_push(name), 0)
#endif

#endif /* GPUPEAK_GPUPEAK_H */
