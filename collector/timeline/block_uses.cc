#include "collector/timeline/block_uses.h"

#include <algorithm>

namespace gpupeak::collector {

void BlockUses::add(const UsedEvent& used, uint64_t ticks) {
  is_known = true;
  if (used.count == 0) return;
  const uint64_t its_first = ticks - used.first_ago, its_last = ticks - used.last_ago;
  if (count == 0) first = its_first;
  last = std::max(last, its_last);
  count += used.count;
  if (used.idle <= idle) return;
  idle = used.idle;
  idle_since = ticks - used.idle_since_ago;
}

UseStanding BlockUses::at(uint64_t ticks) const {
  if (!is_known) return {UseAtPeak::kNotKnown, 0};
  if (count == 0) return {UseAtPeak::kNever, 0};
  if (last <= ticks) return {UseAtPeak::kOver, ticks - last};
  if (first > ticks) return {UseAtPeak::kEarly, first - ticks};
  const bool spans = idle_since <= ticks && idle_since + idle > ticks;
  return spans ? UseStanding{UseAtPeak::kIdle, idle} : UseStanding{UseAtPeak::kInUse, 0};
}

}  // namespace gpupeak::collector
