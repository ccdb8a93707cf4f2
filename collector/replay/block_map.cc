#include "collector/replay/block_map.h"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace gpupeak::collector {

void BlockMap::Unmap::operator()(Entry* table) const {
  munmap(table, bytes);
}

BlockMap::Table BlockMap::make_table(size_t entries) {
  const size_t bytes = entries * sizeof(Entry);
  void* table = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (table == MAP_FAILED) throw std::bad_alloc();
  madvise(table, bytes, MADV_HUGEPAGE);
  return Table(static_cast<Entry*>(table), {bytes});
}

void BlockMap::grow() {
  const size_t old_mask = mask_;
  const Table old = std::exchange(table_, make_table(2 * (mask_ + 1)));
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
