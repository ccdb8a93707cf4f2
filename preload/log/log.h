// The log as the engine sees it: a stream of events for each thread, one stream of definitions, and
// the counters page. Every function is HOOK-SAFE and must be called inside a HookScope.
#pragma once

#include <cstdint>
#include <string_view>

#include "gpupeak/log_format.h"
#include "log/record.h"

namespace gpupeak::preload {

/// Appends to the calling thread's stream, stamped now. Lost records are counted in dropped_events.
void emit(const Record& record);
/// Appends to the definitions. Takes the definitions' lock.
void define(const Record& record);
/// The id of `text` in the log's string table, defined at its first use; 0 if that failed.
uint32_t intern_string(std::string_view text);

/// The counters page; before the log is open a private page, so that it can always be written.
gpupeak_counters_page& counters();
void count(uint64_t gpupeak_counters_page::*counter, uint64_t by = 1);
void set_quality(uint64_t bit);

/// live += bytes, peak = max: exact at once when the caller serialises, as the device tracker does.
void gauge_add(gpupeak_gauge& gauge, int64_t bytes);
/// The gauge's peak since the last begin_window(), which leaves the gauge itself alone. Gauges of
/// the counters page only.
uint64_t window_peak(gpupeak_gauge& gauge);
void begin_window(gpupeak_gauge& gauge);

}  // namespace gpupeak::preload
