// Summarizes requests that the driver or an arena refused: what was asked for, what was free, who
// held the rest, and why. analyze() calls it.
#pragma once

#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// In the order in which they failed, each with the `top` largest holders. `growth`: what grew in
/// the run, by which causes are found.
std::vector<OutOfMemory> summarize_failures(const Replay& replay, Attribution& by_site,
                                            const std::vector<GrowthSummary>& growth, size_t top);

}  // namespace gpupeak::collector
