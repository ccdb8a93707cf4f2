// What a summary needs of all groups, found in one pass over them after the replay: for each
// context what is live and what was temporary, and which groups still hold memory. A log may have
// millions of groups, but only thousands of contexts.
#pragma once

#include <cstdint>
#include <vector>

#include "collector/analyze/arena_peak.h"
#include "collector/replay/replay.h"

namespace gpupeak::collector {

struct GroupTotals {
  explicit GroupTotals(const Replay& replay);

  struct OfContext {
    uint64_t alloc_bytes = 0, alloc_count = 0;
    /// The group that held most at once; of equal ones the first; kNoGroup: all held nothing.
    GroupId biggest = kNoGroup;
    uint64_t biggest_bytes = 0;
  };
  std::vector<OfContext> contexts;  ///< by ContextId
  std::vector<Contribution> live;   ///< by group: those that hold bytes at the end
  /// By group: how many of its blocks were temporary, in `bytes`, too.
  std::vector<Contribution> temporaries;
};

}  // namespace gpupeak::collector
