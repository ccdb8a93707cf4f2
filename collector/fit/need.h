// What a run needs of each device by its log, or by those of all programs that its process ran, and
// whether the log is good enough to say so. `gpupeak fit` and `gpupeak sweep` ask for it.
#pragma once

#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/summary/fit.h"

namespace gpupeak::collector {

struct LogNeeds {
  Summary summary;
  std::vector<DeviceNeed> devices;  ///< those that the process used
};
/// Of one log, with the other programs that its process ran. Throws LogError.
LogNeeds needs_of(const std::string& path, const Options& options, const Progress& progress = {});

}  // namespace gpupeak::collector
