// Finds what ended a job: which process was in trouble first, and what became of the others.
#pragma once

#include "collector/merge/merged.h"
#include "collector/merge/nodes.h"

namespace gpupeak::collector {

/// A process that did not end in order was in trouble since its last request was refused or,
/// without a refusal, since it ended. If a signal from outside ended it, an earlier refusal does
/// not count: programs can live with refusals.
JobEnd find_job_end(const Merged& merged, const JobClock& clock);

}  // namespace gpupeak::collector
