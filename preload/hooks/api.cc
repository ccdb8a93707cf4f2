// The functions that gpupeak.h refers to.
#include <atomic>
#include <initializer_list>

#include "base/hook_scope.h"
#include "base/process_state.h"
#include "gpupeak/gpupeak.h"
#include "gpupeak/memory_kinds.h"
#include "hooks/export.h"
#include "log/log.h"
#include "thread/thread_slot.h"
#include "track/arenas.h"
#include "track/device_book.h"
#include "track/phases.h"

using namespace gpupeak::preload;

namespace {

Name name_of(const char* name) {
  return name != nullptr ? name : "";
}

uint64_t load(uint64_t& value) {
  return std::atomic_ref<uint64_t>(value).load(std::memory_order_relaxed);
}

/// The gauge that `what` (enum gpupeak_what) names; nullptr: none.
gpupeak_gauge* gauge_of(int what, int device) {
  gpupeak_counters_page& page = counters();
  switch (what) {
    case GPUPEAK_HEAP:
      return g_process->host_mode == HostMode::kOff ? nullptr : &page.heap;
    case GPUPEAK_PINNED:
      return &page.pinned;
    case GPUPEAK_REGISTERED:
      return &page.registered;
    case GPUPEAK_MANAGED:
      return &page.managed;
    default:
      break;
  }
  if (!has_counters(device)) return nullptr;
  if (what == GPUPEAK_DEVICE) return &page.device[device].total;
  if (what < GPUPEAK_DEVICE_LINEAR || what > GPUPEAK_DEVICE_GRAPH) return nullptr;
  return &gpupeak::device_gauge(
      page, static_cast<uint32_t>(device),
      static_cast<uint32_t>(GPUPEAK_KIND_LINEAR + what - GPUPEAK_DEVICE_LINEAR));
}
static_assert(GPUPEAK_DEVICE_GRAPH - GPUPEAK_DEVICE_LINEAR ==
              GPUPEAK_KIND_GRAPH - GPUPEAK_KIND_LINEAR);

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

/// `what`: enum gpupeak_what. If it is not measured, returns 0 and leaves `usage` alone.
GPUPEAK_EXPORT int gpupeak_api_usage(int what, int device, struct gpupeak_usage* usage) {
  HookScope hook;
  if (!hook.entered() || !recording()) return 0;
  gpupeak_gauge* gauge = gauge_of(what, device);
  if (gauge == nullptr) return 0;
  if (what == GPUPEAK_HEAP) flush_own_slot();
  const auto live = static_cast<int64_t>(load(gauge->live));
  usage->live_bytes = live > 0 ? static_cast<uint64_t>(live) : 0;
  usage->peak_bytes = load(gauge->peak);
  usage->window_peak_bytes = window_peak(*gauge);
  usage->alloc_count = what == GPUPEAK_HEAP     ? load(counters().heap_alloc_count)
                       : what == GPUPEAK_DEVICE ? load(counters().device[device].alloc_count)
                                                : 0;
  return 1;
}

/// The peaks of the window begin anew, from what is live now.
GPUPEAK_EXPORT void gpupeak_api_reset_window(void) {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  flush_own_slot();
  const BookGuard guard;  // its holder alone counts device and pinned memory
  if (!guard) return;
  for (const int what : {GPUPEAK_HEAP, GPUPEAK_PINNED, GPUPEAK_REGISTERED, GPUPEAK_MANAGED}) {
    if (gpupeak_gauge* gauge = gauge_of(what, 0)) begin_window(*gauge);
  }
  for (int device = 0; device < kDevices; ++device) {
    for (int what = GPUPEAK_DEVICE; what <= GPUPEAK_DEVICE_GRAPH; ++what)
      begin_window(*gauge_of(what, device));
  }
}
