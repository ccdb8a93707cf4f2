#include "track/waiting_index.h"

namespace gpupeak::preload {

/// After a jump out of a change `numbers_` may have a number twice, or the number of a block that
/// is gone: then `waits_as` does not fit.
__attribute__((noinline)) void WaitingIndex::enter_those_that_wait() {
  for (uint32_t place = 0; place < count_; ++place) {
    Use& block = all_[numbers_[place]];
    if (block.waits_as != place + 1) continue;
    block.waits_as = 0;
    if (!index_.add(block)) refused_(block);
  }
  count_ = 0;
  lowest_ = UINT64_MAX;
  highest_ = 0;
}

}  // namespace gpupeak::preload
