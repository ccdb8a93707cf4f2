// The log's page of counters and gauges, which a program can read while it runs. Every function is
// HOOK-SAFE.
#pragma once

#include <cstdint>

#include "base/hot.h"
#include "gpupeak/log_format.h"

namespace gpupeak::preload {

extern constinit GPUPEAK_OWN gpupeak_counters_page* g_counters;
/// The counters page; before the log is open a private page, so that it can always be written.
inline gpupeak_counters_page& counters() {
  return *g_counters;
}
void count(uint64_t gpupeak_counters_page::*counter, uint64_t by = 1);
void set_quality(uint64_t bit);

/// live += bytes, peak = max: exact at once when the caller serialises, as the device tracker does.
void gauge_add(gpupeak_gauge& gauge, int64_t bytes);
/// The gauge's peak since the last begin_window(), which leaves the gauge itself alone. Gauges of
/// the counters page only.
uint64_t window_peak(gpupeak_gauge& gauge);
void begin_window(gpupeak_gauge& gauge);

/// Raises it to `live`, if it is less.
void raise_peak(uint64_t& peak, uint64_t live);

/// The log is open: counts into its page from now on, with what was counted before.
void move_counters_to(gpupeak_counters_page* page);
/// In a forked child: the parent's page is not ours.
void forget_counters();

}  // namespace gpupeak::preload
