// What a summary asks of all groups, in one pass over them after the replay: for each context what
// is live and what was temporary, and which groups still hold memory. A log may have millions of
// groups, and only thousands of contexts.
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
    GroupId biggest = kNoGroup;  ///< held most at once; of equal ones the first; none held nothing
    uint64_t biggest_bytes = 0;
  };
  std::vector<OfContext> contexts;        ///< by ContextId
  std::vector<Contribution> live;         ///< by group: those that hold bytes in the end
  std::vector<Contribution> temporaries;  ///< by group: how many were freed at once, as bytes too
};

}  // namespace gpupeak::collector
