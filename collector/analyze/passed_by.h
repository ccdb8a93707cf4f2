// For an attached program: GPU memory that came and went by calls that we did not see, such as
// functions of the driver that the program keeps on its heap.
#pragma once

#include <cstdint>
#include <optional>

#include "collector/replay/replay.h"

namespace gpupeak::collector {

struct PassedBy {
  int64_t bytes = 0;          ///< by how much the driver's figure has grown more than what was seen
  bool knows_others = false;  ///< it does not contain other processes' memory
};
/// From the driver's first reading to the last. None: it is no more than the error of readings and
/// of the driver's own pages, or there are no readings.
std::optional<PassedBy> passed_by(const Replay& replay);

}  // namespace gpupeak::collector
