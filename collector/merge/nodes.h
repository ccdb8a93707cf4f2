// Finds which processes share a clock, and turns their times into times of the job. Adds up what
// the processes of a node held at once: of each GPU, of all GPUs, of the host.
#pragma once

#include <vector>

#include "collector/merge/merge.h"

namespace gpupeak::collector {

/// Fills nodes and node_of, without sums. Processes of one boot share a clock. A log that does not
/// name its boot counts as one of the boot of that host that started at the same time.
void find_nodes(Merged& merged);

/// Ends a program's curves at the exec that replaced it: its memory is gone then, though its log
/// has no end.
void end_by_exec(Merged& merged);

/// Turns times of all nodes into one scale: nanoseconds since the job's first process began. It is
/// exact within a node; between nodes it is wrong by as much as their wall clocks differ.
class JobClock {
 public:
  explicit JobClock(const Merged& merged);
  /// The job's time for a time on the node's clock.
  int64_t job_ns(size_t node, uint64_t monotonic_ns) const {
    return static_cast<int64_t>(monotonic_ns - begins_[node].monotonic_ns +
                                (begins_[node].realtime_ns - first_realtime_ns_));
  }

 private:
  struct Begin {
    uint64_t monotonic_ns, realtime_ns;
  };
  std::vector<Begin> begins_;  ///< by node: of its first process
  uint64_t first_realtime_ns_ = UINT64_MAX;
};

/// Fills the sums of all nodes. GPUs are told apart by their UUIDs, since processes may number them
/// differently.
void add_node_sums(Merged& merged, const JobClock& clock);

}  // namespace gpupeak::collector
