// Of an attached program: memory of GPUs that came and went by calls which nobody saw, as through
// functions of the driver that the program keeps on its heap.
#pragma once

#include <cstdint>
#include <optional>

#include "collector/replay/replay.h"

namespace gpupeak::collector {

struct PassedBy {
  int64_t bytes = 0;          ///< by which the driver's figure has grown more than what was seen
  bool knows_others = false;  ///< other processes' memory is no part of it
};
/// From the first reading of the driver to the last. None: it is no more than what readings and the
/// driver's own pages are off by, or there are no readings.
std::optional<PassedBy> passed_by(const Replay& replay);

}  // namespace gpupeak::collector
