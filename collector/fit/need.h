// How much memory of each device a run needs, and whether its log is good enough to say so.
// `gpupeak fit` and `gpupeak sweep` call it.
//
// in    a log; or the logs of all programs that one process ran, one after the other
// out   for each device:   least    with less than this the run fails
//                          most     with this the run succeeds: what it took when it was recorded
//                          enough   with this a simulation of the arena succeeds; between the two
//       and for each bound that does not hold, the reason
//
//   least 5.1 GiB   PyTorch had 4.6 GiB in use, and 0.5 GiB were outside of it
//   most  7.9 GiB   PyTorch kept 2.8 GiB idle beside that
//   enough 5.4 GiB  with that much PyTorch gives idle segments back in time
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
