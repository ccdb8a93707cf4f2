// What ended a job, and on which of its processes: the first that was in trouble, and what became
// of the others.
#pragma once

#include "collector/merge/merged.h"
#include "collector/merge/nodes.h"

namespace gpupeak::collector {

/// A process that did not end in order was in trouble from the time when its last request was
/// refused; without a refusal, when it ended. If a signal from outside ended it, an earlier refusal
/// does not count: programs live with refusals.
JobEnd find_job_end(const Merged& merged, const JobClock& clock);

}  // namespace gpupeak::collector
