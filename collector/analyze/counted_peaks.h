// If events were lost, the log's counters know more than the replay.
#pragma once

#include <cstdint>
#include <optional>

#include "collector/log/log_head.h"
#include "collector/replay/replay.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// Sets the peaks of devices and of the heap, and their metrics, to what the counters page says.
/// That counts each call, whether or not the log has room for it. If allocations were lost the
/// replay has less, if frees were lost it has more. Holders still add up: what the log does not
/// have is a holder; if the log has too much, no holder is known.
void set_to_counted(const LogHead& head, Summary& summary);

// For an attached program: GPU memory that came and went by calls that we did not see, such as
// functions of the driver that the program keeps on its heap.

struct PassedBy {
  int64_t bytes = 0;          ///< by how much the driver's figure has grown more than what was seen
  bool knows_others = false;  ///< it does not contain other processes' memory
};
/// From the driver's first reading to the last. None: it is no more than the error of readings and
/// of the driver's own pages, or there are no readings.
std::optional<PassedBy> passed_by(const Replay& replay);

}  // namespace gpupeak::collector
