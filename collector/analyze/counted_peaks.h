// Where events were lost, the log's counters know more than the replay.
#pragma once

#include "collector/log/log_head.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// Sets the peaks of devices and of the heap, and the metrics of them, to what the counters page
/// says, which counts each call whether or not there is room for it in the log: where allocations
/// were lost the replay has less, where frees were lost it has more. Holders still add up: what the
/// log does not have is one of them; where it has too much, nobody is known.
void set_to_counted(const LogHead& head, Summary& summary);

}  // namespace gpupeak::collector
