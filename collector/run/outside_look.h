// A process's resident memory, as `gpupeak run` saw it from outside, as metrics.
#pragma once

#include <cstdint>

#include "collector/run/run_logs.h"
#include "collector/summary/figures.h"

namespace gpupeak::collector {

/// Adds what was resident in the log's process, by cause, if `run` saw more from outside than the
/// process saw itself. The causes add up to the total.
void add_outside_look(const RunLogs& run, const RunLog& log, Metrics& metrics);

/// The largest resident memory that `run` saw of a process; 0: it did not look.
uint64_t seen_resident_bytes(const RunLogs& run, uint32_t pid);

}  // namespace gpupeak::collector
