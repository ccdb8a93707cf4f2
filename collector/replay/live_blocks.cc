#include "collector/replay/live_blocks.h"

namespace gpupeak::collector {

void LiveBlocks::keep_large(BlockNumber number, const Block& block) {
  entries_[number].size = kLarge;
  large_[number] = block;
}

std::optional<Block> LiveBlocks::around(uint64_t address) const {
  std::optional<Block> found;
  for (BlockNumber number{}; number < entries_.size(); ++number) {
    const uint64_t begin = entries_[number].address;
    if (begin == 0 || begin > address || (found && begin <= found->address)) continue;
    const Block block = this->block(number);
    if (address == begin || address - begin < block.bytes) found = block;
  }
  return found;
}

}  // namespace gpupeak::collector
