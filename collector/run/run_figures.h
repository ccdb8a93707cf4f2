// The metrics of a run of several processes.
#pragma once

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// Fills WholeRun::metrics from the metrics of the processes and from the sums.
void add_run_metrics(WholeRun& run);

/// The lead's Summary with the run's metrics, GPUs and quality in place of the lead's; unchanged
/// for a process alone.
Summary figures_of_run(Summary lead);

}  // namespace gpupeak::collector
