// Which processes share a clock, and what time it is in the job.
#pragma once

#include <vector>

#include "collector/merge/merged.h"

namespace gpupeak::collector {

/// Fills nodes and node_of, without sums. Processes of one boot share a clock. A log without the
/// boot's name is taken for one of a boot of the same host that started at the same time.
void find_nodes(Merged& merged);

/// Ends the curves of a program at the exec that replaced it: its memory is gone then, though its
/// log has no end.
void end_by_exec(Merged& merged);

/// Times of all nodes on one scale: nanoseconds since the job's first process began. Exact within a
/// node; between nodes off by as much as their wall clocks differ.
class JobClock {
 public:
  explicit JobClock(const Merged& merged);
  /// Of a time on the node's own clock.
  int64_t job_ns(size_t node, uint64_t monotonic_ns) const {
    return static_cast<int64_t>(monotonic_ns - begins_[node].monotonic_ns +
                                (begins_[node].realtime_ns - first_realtime_ns_));
  }

 private:
  struct Begin {
    uint64_t monotonic_ns, realtime_ns;
  };
  std::vector<Begin> begins_;  ///< of each node's first process
  uint64_t first_realtime_ns_ = UINT64_MAX;
};

}  // namespace gpupeak::collector
