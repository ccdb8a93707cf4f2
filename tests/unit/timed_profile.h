// A log that has been replayed, with its curve over time.
#pragma once

#include <utility>

#include "collector/analyze/profile.h"
#include "collector/timeline/time_series.h"
#include "log_builder.h"

namespace gpupeak::testing {

class TimedProfile {
 public:
  explicit TimedProfile(LogBuilder log) : profile(log.save(file_.path()), {}, &times) {
    times.finish(profile.replay());
  }

 private:
  TemporaryFile file_;

 public:
  collector::TimeSeries times;
  collector::Profile profile;
};

}  // namespace gpupeak::testing
