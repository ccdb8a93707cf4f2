// Makes the summary's quality section: what went wrong or was not measured, as warnings with codes
// (docs/metrics.md lists them), and whether the figures are exact. analyze() calls it last.
#pragma once

#include <vector>

#include "collector/log/log_head.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// How the process ended, as far as its log says.
RunEnd run_end(const gpupeak_counters_page& page);

/// `symbol_warnings`: modules that could not be read.
Quality assess_quality(const Replay& replay, const Coverage& coverage,
                       const std::vector<Warning>& symbol_warnings);

}  // namespace gpupeak::collector
