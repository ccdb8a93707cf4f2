// The functions that gpupeak.h refers to.
#include <cstdint>

#include "base/process_state.h"
#include "gpupeak/gpupeak.h"
#include "hooks/export.h"
#include "track/arenas.h"
#include "track/phases.h"
#include "track/usage.h"

using namespace gpupeak::preload;

namespace {

Name name_of(const char* name) {
  return name != nullptr ? name : "";
}
uint64_t address_of(const void* address) {
  return reinterpret_cast<uint64_t>(address);
}

}  // namespace

GPUPEAK_EXPORT void gpupeak_api_phase_push(const char* name) {
  ensure_started();
  phase_push({GPUPEAK_PHASE_API, name_of(name)}, __builtin_frame_address(0));
}

GPUPEAK_EXPORT void gpupeak_api_phase_pop(void) {
  phase_pop(GPUPEAK_PHASE_API, 0, __builtin_frame_address(0));
}

GPUPEAK_EXPORT void gpupeak_api_mark(const char* name) {
  ensure_started();
  mark({GPUPEAK_PHASE_API, name_of(name)});
}

GPUPEAK_EXPORT void gpupeak_api_tag_push(const char* name) {
  ensure_started();
  tag_push(name_of(name));
}

GPUPEAK_EXPORT void gpupeak_api_tag_pop(void) {
  tag_pop();
}

GPUPEAK_EXPORT gpupeak_arena gpupeak_api_arena_create(const char* name, const void* address,
                                                      size_t bytes) {
  ensure_started();
  return arena_create(name_of(name), address_of(address), bytes);
}

GPUPEAK_EXPORT void gpupeak_api_arena_destroy(gpupeak_arena arena) {
  arena_event(arena, GPUPEAK_ARENA_DESTROYED);
}

GPUPEAK_EXPORT void gpupeak_api_arena_reset(gpupeak_arena arena) {
  arena_event(arena, GPUPEAK_ARENA_RESET);
}

GPUPEAK_EXPORT void gpupeak_api_arena_alloc(gpupeak_arena arena, const void* address, size_t bytes,
                                            const char* name) {
  arena_allocated(arena, address_of(address), bytes, name_of(name), GPUPEAK_CALLER);
}

GPUPEAK_EXPORT void gpupeak_api_arena_free(gpupeak_arena arena, const void* address) {
  arena_freed(arena, address_of(address));
}

GPUPEAK_EXPORT int gpupeak_api_usage(int what, int device, struct gpupeak_usage* usage) {
  return read_usage(what, device, *usage) ? 1 : 0;
}

GPUPEAK_EXPORT void gpupeak_api_reset_window(void) {
  reset_window();
}
