// How much host memory a run of a sweep needed: the resident memory of its processes.
#pragma once

#include <string>
#include <vector>

#include "collector/fit/sweep_runs.h"

namespace gpupeak::tools {

/// `logs`: the run's logs, the started process's first. Throws LogError.
collector::HostNeed host_need_of(const std::vector<std::string>& logs,
                                 const collector::Reading& reading);

/// The host's capacity in bytes: the limit of this process's control groups, else the machine's
/// memory.
collector::SweepCapacity host_capacity();

}  // namespace gpupeak::tools
