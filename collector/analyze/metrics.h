// Makes the summary's metrics: figures by name, null if something was not measured. docs/metrics.md
// defines each. analyze() calls it.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "collector/analyze/group_totals.h"
#include "collector/log/log_head.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// The figures of one device, or of all devices (-1).
Metrics device_metrics(const Replay& replay, const GroupTotals& totals, int32_t device);
/// All figures of the process.
Metrics process_metrics(const Replay& replay, const GroupTotals& totals, const Coverage& coverage);
/// Allocations made in each phase, by PhaseId: device side and host side.
std::vector<std::array<uint64_t, kPhaseSides>> phase_alloc_counts(const Replay& replay,
                                                                  const GroupTotals& totals);
/// Bytes that are live at the end and that each phase or the phases within it allocated, by
/// PhaseId: device side and host side. Phase 0 has all.
std::vector<std::array<uint64_t, kPhaseSides>> phase_live_bytes(const Replay& replay);
/// A phase's start, peak and end. `alloc_counts` are its own.
Metrics phase_metrics(const Phase& phase, const std::array<uint64_t, kPhaseSides>& alloc_counts,
                      const std::array<uint64_t, kPhaseSides>& live_bytes, bool kept_is_known,
                      bool covers_host);

}  // namespace gpupeak::collector
