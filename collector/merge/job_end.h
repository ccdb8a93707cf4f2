// What ended a job, and on which of its processes: the first that was in trouble, and what became
// of the others.
#pragma once

#include "collector/merge/merged.h"
#include "collector/merge/nodes.h"

namespace gpupeak::collector {

/// A process that ended not in order was in trouble when its last request was refused, else when it
/// ended. One that was ended by a signal which others send is not told by what was refused before:
/// programs live with refusals.
JobEnd find_job_end(const Merged& merged, const JobClock& clock);

}  // namespace gpupeak::collector
