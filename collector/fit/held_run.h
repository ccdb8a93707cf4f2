// A recorded run with less memory. Where the driver would refuse a segment, the arena gives back
// its idle segments, or asks for a smaller one (arena_model.h). What others take meanwhile
// (libraries, the driver itself) must find room at once. need.cc asks with which amounts of memory
// this fails: a run may fail with more memory and succeed with less, if with less the arena gave
// back in time.
//
// Two things a log does not tell: how much was asked for of a block that got a whole piece, and
// where a new segment lies (of equal pieces the lowest is taken). Both are tried either way, and
// mixed.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collector/fit/arena_requests.h"
#include "collector/summary/fit.h"

namespace gpupeak::collector {

struct HeldRun {
  bool fits = false;
  uint64_t needed =
      0;  ///< with less than that it would have gone otherwise, from there on the same
};
inline constexpr unsigned kHeldRunVariants = 6;
/// With so much memory for the process. `variant` of kHeldRunVariants.
HeldRun hold(const ArenaRequests& history, uint64_t capacity, unsigned variant);

/// The amounts of memory with which the run fails in some variant, up to what it needs as recorded:
/// ascending, never touching; what is less than `least` is one of them. Courses are tried from
/// `most` down, all of them, unless the history is so long that they must lie apart; what was not
/// tried fails. None: it fails with `most`, so the history is not this run's.
std::optional<std::vector<FitRange>> fails_for(const ArenaRequests& history, uint64_t least,
                                               uint64_t most);

}  // namespace gpupeak::collector
