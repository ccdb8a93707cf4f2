#include "collector/block_map.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace gpupeak::collector {
namespace {

constexpr size_t kHugePageBytes = 2 << 20;
constexpr size_t kPageBytes = 4096;

}  // namespace

BlockMap::Table BlockMap::make_table(size_t entries) {
  const size_t bytes = entries * sizeof(Block);
  const bool huge = bytes >= 2 * kHugePageBytes;
  const size_t page_bytes = huge ? kHugePageBytes : kPageBytes;
  const size_t rounded = (bytes + page_bytes - 1) / page_bytes * page_bytes;
  void* table = std::aligned_alloc(page_bytes, rounded);
  if (table == nullptr) throw std::bad_alloc();
  if (huge) madvise(table, rounded, MADV_HUGEPAGE);
  memset(table, 0, bytes);
  return Table(static_cast<Block*>(table));
}

}  // namespace gpupeak::collector
