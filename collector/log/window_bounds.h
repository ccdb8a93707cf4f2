// Where a log's time is best cut, so that its pieces are merged at the same time. EventWindows
// asks.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/log/log_reader.h"

namespace gpupeak::collector {

/// Of all chunks of events.
uint64_t total_bytes(const LogReader& log);

/// The last ticks of each window, in order; UINT64_MAX is the last. Each window has some
/// `window_bytes` of the log, as far as the chunks' headers tell: when each began, but not when its
/// records were written.
std::vector<uint64_t> window_bounds(const LogReader& log, uint64_t window_bytes);

}  // namespace gpupeak::collector
