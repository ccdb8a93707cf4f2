// The metrics of a run of several processes.
#pragma once

#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// Fills WholeRun::metrics from the processes' and the sums.
void add_run_metrics(WholeRun& run);

/// A run's metrics, GPUs and quality in place of the lead's. Of a process alone nothing changes.
Summary figures_of_run(Summary lead);

}  // namespace gpupeak::collector
