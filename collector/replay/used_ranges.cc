#include "collector/replay/used_ranges.h"

#include <algorithm>
#include <iterator>

namespace gpupeak::collector {

uint64_t UsedRanges::add(uint64_t begin, uint64_t end) {
  if (begin >= end) return 0;
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin() && std::prev(range)->second >= begin) --range;
  if (range != ranges_.end() && range->first <= begin && range->second >= end) return 0;
  uint64_t fresh = end - begin;
  uint64_t joined_begin = begin, joined_end = end;
  while (range != ranges_.end() && range->first <= end) {
    fresh -= std::min(range->second, end) - std::max(range->first, begin);
    joined_begin = std::min(joined_begin, range->first);
    joined_end = std::max(joined_end, range->second);
    range = ranges_.erase(range);
  }
  ranges_.emplace(joined_begin, joined_end);
  return fresh;
}

uint64_t UsedRanges::remove(uint64_t begin, uint64_t end) {
  uint64_t used = 0;
  auto range = ranges_.upper_bound(begin);
  if (range != ranges_.begin() && std::prev(range)->second > begin) --range;
  while (range != ranges_.end() && range->first < end) {
    const auto [from, to] = *range;
    used += std::min(to, end) - std::max(from, begin);
    range = ranges_.erase(range);
    if (from < begin) ranges_.emplace(from, begin);
    if (to > end) ranges_.emplace(end, to);
  }
  return used;
}

}  // namespace gpupeak::collector
