// The summary's metrics: figures by name, null where nothing was measured. docs/metrics.md defines
// each. analyze() calls it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collector/analyze/group_totals.h"
#include "collector/log/coverage.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// Device figures of one device, or of all for -1.
Metrics device_metrics(const Replay& replay, const GroupTotals& totals, int32_t device);
/// All figures of the process.
Metrics process_metrics(const Replay& replay, const GroupTotals& totals, const Coverage& coverage);
/// Allocations made in each phase, by PhaseId: device side and host side.
std::vector<std::array<uint64_t, kPhaseSides>> phase_alloc_counts(const Replay& replay,
                                                                  const GroupTotals& totals);
/// Bytes live in the end that each phase and those within it allocated, by PhaseId: device side and
/// host side. Of phase 0: all.
std::vector<std::array<uint64_t, kPhaseSides>> phase_live_bytes(const Replay& replay);
/// Start, peak and end of a phase; `alloc_counts` are its own.
Metrics phase_metrics(const Phase& phase, const std::array<uint64_t, kPhaseSides>& alloc_counts,
                      const std::array<uint64_t, kPhaseSides>& live_bytes, bool kept_is_known,
                      bool covers_host);

}  // namespace gpupeak::collector
