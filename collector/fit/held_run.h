// A recorded run with less memory. Where the driver would refuse a segment, the arena gives back
// its idle segments, or asks for a smaller one (arena_model.h). What others take meanwhile
// (libraries, the driver itself) must find room at once. need.cc asks with which amounts of memory
// this fails: a run may fail with more memory and succeed with less, if with less the arena gave
// back in time.
//
// A log does not tell how much was asked for if a block got a whole piece, nor where a new segment
// would lie (of equal pieces the lowest is taken). Variants try both extremes of both, and mixes.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collector/fit/arena_requests.h"
#include "collector/summary/fit.h"

namespace gpupeak::collector {

struct HeldRun {
  bool fits = false;
  /// With at least this much memory the run goes the same way; with less it goes another way.
  uint64_t needed = 0;
};
inline constexpr unsigned kHeldRunVariants = 6;
/// The run with so much memory for the process, in bytes. `variant`: below kHeldRunVariants.
HeldRun hold(const ArenaRequests& history, uint64_t capacity, unsigned variant);

/// The ranges of bytes with which the run fails in some variant: ascending, with gaps between them.
/// The first one ends at `least` or above. Runs are tried from `most` bytes down, every amount with
/// which the run goes another way; if the history is too long for that, amounts with a distance
/// between them. An amount that was not tried counts as failing. None: the run fails even with
/// `most`, so the history cannot be this run's.
std::optional<std::vector<FitRange>> fails_for(const ArenaRequests& history, uint64_t least,
                                               uint64_t most);

}  // namespace gpupeak::collector
