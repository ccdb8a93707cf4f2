// Summarizes phases: what each held when it began, at its peak and at its end, its instances, and
// the site that took most in it. analyze() calls it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/analyze/group_totals.h"
#include "collector/log/log_process.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// The name of a GPUPEAK_PHASE_*: "auto", "nvtx", "ort", "rule", "mark", "node" or "api".
std::string_view phase_source_name(uint8_t source);

struct PhaseListing {
  /// A phase that was open when the process ended ends with the run, after this time.
  int64_t run_duration_ns = 0;
  bool with_library = true;  ///< list the phases that libraries mark for themselves
  bool with_host_sites = true;
};

/// By their first begins, folded as phase_names.h says.
std::vector<PhaseSummary> summarize_phases(const Replay& replay, const GroupTotals& totals,
                                           Attribution& by_site, const Coverage& coverage,
                                           PhaseListing listing);

}  // namespace gpupeak::collector
