// A replay that somebody looks at after each event: for what a summary does not need.
#pragma once

#include "collector/replay/replay.h"

namespace gpupeak::collector {

class ReplayObserver {
 public:
  virtual ~ReplayObserver() = default;
  virtual void after(const Event& event, const Replay& replay) = 0;
};

/// As replay.run() does; of equal logs each event has the same number.
void run_observed(Replay& replay, ReplayObserver& observer, const Progress& progress);

}  // namespace gpupeak::collector
