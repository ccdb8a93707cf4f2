// If events were lost, the log's counters know more than the replay.
#pragma once

#include "collector/log/log_head.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

/// Sets the peaks of devices and of the heap, and their metrics, to what the counters page says.
/// That counts each call, whether or not the log has room for it. If allocations were lost the
/// replay has less, if frees were lost it has more. Holders still add up: what the log does not
/// have is a holder; if the log has too much, no holder is known.
void set_to_counted(const LogHead& head, Summary& summary);

}  // namespace gpupeak::collector
