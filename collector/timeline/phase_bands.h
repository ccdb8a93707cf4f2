// The phases of a run as bands over a time axis, laid out in lanes so that none covers another.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

struct PhaseBand {
  std::string name;
  uint64_t count = 1;
  size_t lane = 0;  ///< 0: outermost
  int64_t begin_ns = 0, end_ns = 0;
  /// The begin and end of each repetition, in order. Empty if there is only one, or more than are
  /// kept.
  std::vector<std::pair<int64_t, int64_t>> instances;

  /// The name, with the number of repetitions if there are several.
  std::string label() const;
};

/// The bands by begin, callers before what they contain. At most `max_lanes` lanes: phases that
/// need more are left out.
std::vector<PhaseBand> phase_bands(const Profile& profile, size_t max_lanes);

}  // namespace gpupeak::collector
