#include "collector/replay/block_map.h"

#include <utility>

namespace gpupeak::collector {

void BlockMap::grow() {
  const size_t old_mask = mask_;
  const ZeroedTable<Entry> old = std::exchange(table_, ZeroedTable<Entry>(2 * (mask_ + 1)));
  ++bits_;
  --shift_;
  mask_ = 2 * old_mask + 1;
  for (size_t from = 0; from <= old_mask; ++from) {
    if (old[from].address == 0) continue;
    size_t to = home(old[from].address);
    while (table_[to].address != 0) to = (to + 1) & mask_;
    table_[to] = old[from];
  }
}

void BlockMap::keep_large(Entry& entry, const Block& block) {
  entry.size = kLarge;
  large_[entry.address] = block;
}

}  // namespace gpupeak::collector
