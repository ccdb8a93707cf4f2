#include "collector/fit/growing_range.h"

#include <iterator>

namespace gpupeak::collector {

void GrowingRange::remove_idle(std::map<uint64_t, uint64_t>::iterator piece) {
  by_bytes_.erase({piece->second, piece->first});
  idle_.erase(piece);
}

void GrowingRange::add_idle(uint64_t address, uint64_t bytes) {
  if (bytes == 0) return;
  auto next = idle_.lower_bound(address);
  if (next != idle_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == address) {
      address = before->first;
      bytes += before->second;
      remove_idle(before);
    }
  }
  if (next != idle_.end() && address + bytes == next->first) {
    bytes += next->second;
    remove_idle(next);
  }
  idle_.emplace(address, bytes);
  by_bytes_.emplace(bytes, address);
}

bool GrowingRange::is_last(uint64_t address, uint64_t bytes) const {
  return address + bytes == mapped_;
}

uint64_t GrowingRange::give(uint64_t bytes) {
  auto best = by_bytes_.lower_bound({bytes, 0});
  if (best != by_bytes_.end() && is_last(best->second, best->first)) {
    const auto next = std::next(best);
    if (next != by_bytes_.end()) best = next;
  }
  if (best == by_bytes_.end()) {
    uint64_t tail = 0;
    if (!idle_.empty() && is_last(idle_.rbegin()->first, idle_.rbegin()->second))
      tail = idle_.rbegin()->second;
    const uint64_t more = (bytes - tail + handle_bytes_ - 1) / handle_bytes_ * handle_bytes_;
    add_idle(mapped_, more);
    mapped_ += more;
    best = by_bytes_.lower_bound({bytes, 0});
  }
  const auto [whole, address] = *best;
  remove_idle(idle_.find(address));
  add_idle(address + bytes, whole - bytes);
  return address;
}

void GrowingRange::take_back(uint64_t address, uint64_t bytes) {
  add_idle(address, bytes);
}

}  // namespace gpupeak::collector
