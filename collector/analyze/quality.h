// Turns what went wrong, or was never measured, into the summary's quality section: warnings with
// codes (docs/metrics.md lists them) and whether the figures are exact. analyze() calls it last.
#pragma once

#include <vector>

#include "collector/log/coverage.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

Quality assess_quality(const Replay& replay, const Coverage& coverage,
                       const std::vector<Warning>& symbol_warnings);

}  // namespace gpupeak::collector
