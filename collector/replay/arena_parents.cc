#include "collector/replay/arena_parents.h"

#include <algorithm>

namespace gpupeak::collector {

void ArenaParents::add(Key key, const Parent& parent) {
  remove(key);
  if (parent.address != 0) unmap(parent.address, parent.bytes);
  parents_.emplace(key, parent);
  if (key >> 63 != 0) ++heap_blocks_;
  if (parent.address != 0 && parent.bytes > 0) {
    ranges_[parent.address] = {parent.address + parent.bytes, key};
  }
}

ArenaParents::Parent* ArenaParents::find(Key key) {
  const auto entry = parents_.find(key);
  return entry != parents_.end() ? &entry->second : nullptr;
}

void ArenaParents::remove(Key key) {
  const auto entry = parents_.find(key);
  if (entry == parents_.end()) return;
  if (entry->second.owner != kNobody) ++owned_version_;
  const auto range = ranges_.find(entry->second.address);
  if (range != ranges_.end() && range->second.key == key) ranges_.erase(range);
  if (key >> 63 != 0) --heap_blocks_;
  parents_.erase(entry);
}

void ArenaParents::map(uint64_t address, uint64_t bytes, Key key) {
  unmap(address, bytes);
  Parent* parent = find(key);
  if (parent == nullptr || parent->address != 0 || bytes == 0) return;
  parent->address = address;
  parent->mapped = true;
  if (parent->owner != kNobody) ++owned_version_;
  ranges_[address] = {address + std::min(bytes, parent->bytes), key};
}

/// A range goes as a whole, even if only a part of it is unmapped: in a sound log that does not
/// happen.
void ArenaParents::unmap(uint64_t address, uint64_t bytes) {
  auto range = ranges_.upper_bound(address);
  if (range != ranges_.begin()) --range;
  while (range != ranges_.end() && range->first < address + bytes) {
    if (range->second.end <= address) {
      ++range;
      continue;
    }
    if (Parent* parent = find(range->second.key)) {
      parent->address = 0;
      if (parent->owner != kNobody) ++owned_version_;
    }
    range = ranges_.erase(range);
  }
}

}  // namespace gpupeak::collector
