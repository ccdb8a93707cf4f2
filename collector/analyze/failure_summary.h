// Allocations that the driver refused, as the summary has them: what was asked for, what was free,
// who held the rest. analyze() calls it.
#pragma once

#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// In the order in which they failed, with the `top` largest holders each.
std::vector<OutOfMemory> summarize_failures(const Replay& replay, Attribution& by_site, size_t top);

}  // namespace gpupeak::collector
