// Finds what grows with each step of the run: sites that held more at each end of a repeated phase.
// analyze() calls it.
#pragma once

#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// Only what grew all the time at about the same rate, the largest first.
std::vector<GrowthSummary> summarize_growth(const Replay& replay, Attribution& by_site,
                                            bool with_host);
/// Sets device.step_growth_bytes of each device and, to the largest of them, of the process.
void add_growth_metrics(Summary& summary);

}  // namespace gpupeak::collector
