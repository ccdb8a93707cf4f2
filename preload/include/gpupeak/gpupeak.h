/*
 * gpupeak.h: what a program may say to gpupeak about itself. Include it, link nothing: every
 * function is a weak reference, found when libgpupeak.so is preloaded and a no-op when it is not.
 */
#ifndef GPUPEAK_GPUPEAK_H
#define GPUPEAK_GPUPEAK_H

#ifdef __cplusplus
extern "C" {
#endif

/* Opens a phase named `name` (copied) on the calling thread; phases nest. Never fails. */
__attribute__((weak)) void gpupeak_api_phase_push(const char* name);
/* Closes the calling thread's innermost open phase; without one it does nothing. */
__attribute__((weak)) void gpupeak_api_phase_pop(void);

static inline void gpupeak_phase_push(const char* name) {
  if (gpupeak_api_phase_push) gpupeak_api_phase_push(name);
}
static inline void gpupeak_phase_pop(void) {
  if (gpupeak_api_phase_pop) gpupeak_api_phase_pop();
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
} /* namespace gpupeak */
#endif

#endif /* GPUPEAK_GPUPEAK_H */
