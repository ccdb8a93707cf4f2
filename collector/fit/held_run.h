// A recorded run with less memory: when the driver refuses a segment, the arena gives back its idle
// ones, or asks for a smaller one (arena_model.h); for what else takes memory meanwhile, libraries
// and the driver itself, there must be room at once. So it may fail with more memory and go well
// with less, where the arena has given back in time. need.cc asks with how much it fails.
//
// What a log does not tell is tried both ways and mixed: how much was asked for of a block that got
// a whole piece, and where new segments lie, since of equal pieces the lowest is taken.
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
