// Summarizes phases: what each held when it began, at its peak and at its end, its instances, and
// the site that took most in it. analyze() calls it.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "collector/analyze/attribution.h"
#include "collector/analyze/group_totals.h"
#include "collector/log/log_head.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

// Folds phases that libraries open by the thousand, each with a name of its own. Names that differ
// only in numbers become one phase, and so do the many names of one library's domain. analyze()
// lists phases with it.

/// A phase of a summary that is not folded yet.
struct ListedPhase {
  static constexpr uint32_t kNoParent = UINT32_MAX;
  PhaseSummary phase;
  uint32_t parent = kNoParent;  ///< index of an earlier phase
  uint64_t domain = 0;          ///< its NVTX domain; 0: none, or the default one
};

/// The phases by their first begins. Up to 64 names that differ only in numbers are kept apart: the
/// layers of a model are such names. Phases that the program opens by gpupeak.h and the nodes of a
/// model are never folded.
std::vector<PhaseSummary> fold_phase_names(std::vector<ListedPhase> phases);

/// The name of a GPUPEAK_PHASE_*: "auto", "nvtx", "ort", "rule", "mark", "node" or "api".
std::string_view phase_source_name(uint8_t source);

struct PhaseListing {
  /// A phase that was open when the process ended ends with the run, after this time.
  int64_t run_duration_ns = 0;
  bool with_library = true;  ///< list the phases that libraries mark for themselves
  bool with_host_sites = true;
};

/// By their first begins, folded as said above.
std::vector<PhaseSummary> summarize_phases(const Replay& replay, const GroupTotals& totals,
                                           Attribution& by_site, const Coverage& coverage,
                                           PhaseListing listing);

}  // namespace gpupeak::collector
