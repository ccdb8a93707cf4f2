#include "collector/log/memory_pattern.h"

#include <algorithm>

namespace gpupeak::collector {

void MemoryPattern::allocate(size_t request, uint64_t asked_bytes) {
  constexpr uint64_t kStep = 256, kMost = UINT64_C(1) << 48;
  if (asked_bytes == 0 || asked_bytes > kMost || bytes_ > kMost) return;
  const uint64_t bytes = (asked_bytes + kStep - 1) / kStep * kStep;
  looks_ += live_.size() + 1;
  uint64_t offset = live_.empty() ? 0 : live_.back().offset + live_.back().bytes;
  uint64_t least_left = UINT64_MAX, gap_begin = 0;
  auto place = live_.end();
  for (auto part = live_.begin(); part != live_.end(); ++part) {
    if (part->offset >= gap_begin + bytes && part->offset - gap_begin - bytes < least_left) {
      least_left = part->offset - gap_begin - bytes;
      offset = gap_begin;
      place = part;
    }
    gap_begin = part->offset + part->bytes;
  }
  live_.insert(place, {offset, bytes, request});
  if (offset + bytes <= bytes_) return;
  bytes_ = offset + bytes;
  highest_ = live_;
}

void MemoryPattern::free(size_t request) {
  looks_ += live_.size();
  std::erase_if(live_, [request](const Part& part) { return part.request == request; });
}

}  // namespace gpupeak::collector
