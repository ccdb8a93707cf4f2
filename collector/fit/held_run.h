// A recorded run of PyTorch's with less memory: when the driver refuses a segment, the pool gives
// back all its idle ones and asks once more; for what else takes memory meanwhile, libraries and
// the driver itself, there must be room at once. need.cc asks from how much memory on that goes
// well.
//
// What a log does not tell is tried both ways and mixed: how much was asked for of a block that was
// not split (up to 1 MiB less than it has), and where new segments lie, since of equal pieces the
// lowest is taken.
#pragma once

#include <cstdint>
#include <optional>

#include "collector/fit/torch_history.h"

namespace gpupeak::collector {

struct HeldRun {
  bool fits = false;
  uint64_t needed = 0;  ///< with less than that it would have gone otherwise
};
inline constexpr unsigned kHeldRunVariants = 6;
/// With so much memory for the process. `variant` of kHeldRunVariants.
HeldRun hold(const TorchHistory& history, uint64_t capacity, unsigned variant);

/// So much that with it, and with all that is more, the run goes well in each variant; it is looked
/// for from `most` down, which it needs as recorded, to `least`. None: not even `most` will do.
std::optional<uint64_t> enough_for(const TorchHistory& history, uint64_t least, uint64_t most);

}  // namespace gpupeak::collector
