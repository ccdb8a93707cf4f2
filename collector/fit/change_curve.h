// A sum over time as it was recorded and as it would have been, for a page. WhatIfWatch has one for
// each sum that is drawn.
//
// in    the sum after each event that changed it
// out   at most kMostPoints points. With few changes each is there; with more of them stretches of
//       the run of equal length have the highest of what was in them and the last.
//
//   100 at 1 s, 300 at 1.1 s, 50 at 1.2 s, all in one stretch:  300 at 1 s, 50 at 1.2 s
#pragma once

#include <cstdint>
#include <vector>

#include "collector/summary/what_if.h"

namespace gpupeak::collector {

class ChangeCurve {
 public:
  static constexpr size_t kStretches = 1000, kMostPoints = 4 * kStretches;

  /// From `ticks` on. One point at a time; several at the same time are told as the highest of
  /// them and the last.
  void set(uint64_t ticks, const WhatIfPoint& point);
  /// With the times of the points in ticks.
  std::vector<WhatIfPoint> points() &&;

 private:
  void shorten();

  std::vector<WhatIfPoint> points_;
};

}  // namespace gpupeak::collector
