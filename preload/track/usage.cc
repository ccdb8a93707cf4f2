#include "track/usage.h"

#include <atomic>
#include <initializer_list>

#include "base/hook_scope.h"
#include "base/process_state.h"
#include "gpupeak/memory_kinds.h"
#include "log/log.h"
#include "thread/thread_slot.h"
#include "track/device_book.h"

namespace gpupeak::preload {
namespace {

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
  if (device < 0 || device >= static_cast<int>(GPUPEAK_LOG_MAX_DEVICES)) return nullptr;
  if (what == GPUPEAK_DEVICE) return &page.device[device].total;
  if (what < GPUPEAK_DEVICE_LINEAR || what > GPUPEAK_DEVICE_GRAPH) return nullptr;
  return &device_gauge(page, static_cast<uint32_t>(device),
                       static_cast<uint32_t>(GPUPEAK_KIND_LINEAR + what - GPUPEAK_DEVICE_LINEAR));
}
static_assert(GPUPEAK_DEVICE_GRAPH - GPUPEAK_DEVICE_LINEAR ==
              GPUPEAK_KIND_GRAPH - GPUPEAK_KIND_LINEAR);

}  // namespace

bool read_usage(int what, int device, gpupeak_usage& usage) {
  HookScope hook;
  if (!hook.entered() || !recording()) return false;
  gpupeak_gauge* gauge = gauge_of(what, device);
  if (gauge == nullptr) return false;
  if (what == GPUPEAK_HEAP) flush_own_slot();
  const auto live = static_cast<int64_t>(load(gauge->live));
  usage.live_bytes = live > 0 ? static_cast<uint64_t>(live) : 0;
  usage.peak_bytes = load(gauge->peak);
  usage.window_peak_bytes = window_peak(*gauge);
  usage.alloc_count = what == GPUPEAK_HEAP     ? load(counters().heap_alloc_count)
                      : what == GPUPEAK_DEVICE ? load(counters().device[device].alloc_count)
                                               : 0;
  return true;
}

void reset_window() {
  HookScope hook;
  if (!hook.entered() || !recording()) return;
  flush_own_slot();
  const BookGuard guard;  // its holder alone counts device and pinned memory
  if (!guard) return;
  for (const int what : {GPUPEAK_HEAP, GPUPEAK_PINNED, GPUPEAK_REGISTERED, GPUPEAK_MANAGED}) {
    if (gpupeak_gauge* gauge = gauge_of(what, 0)) begin_window(*gauge);
  }
  for (int device = 0; device < static_cast<int>(GPUPEAK_LOG_MAX_DEVICES); ++device) {
    for (int what = GPUPEAK_DEVICE; what <= GPUPEAK_DEVICE_GRAPH; ++what) {
      begin_window(*gauge_of(what, device));
    }
  }
}

}  // namespace gpupeak::preload
