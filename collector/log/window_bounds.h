// Cuts a log's time into windows that can be merged at the same time. EventWindows calls it.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/log/log_reader.h"

namespace gpupeak::collector {

/// The bytes of all chunks of events.
uint64_t total_bytes(const LogReader& log);

/// The last tick of each window, in order; the last window's is UINT64_MAX. Each window has about
/// `window_bytes` of the log. That is an estimate from the chunks' headers, which say when each
/// chunk began, but not when its records were written.
std::vector<uint64_t> window_bounds(const LogReader& log, uint64_t window_bytes);

}  // namespace gpupeak::collector
