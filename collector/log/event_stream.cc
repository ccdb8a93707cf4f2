#include "collector/log/event_stream.h"

namespace gpupeak::collector {
namespace {

/// At `ticks`, `at_once` bytes are written, and from then on so many bytes more for each tick.
struct Change {
  uint64_t ticks;
  double bytes_per_tick;
  double at_once;
};

/// A chunk is assumed to fill evenly until its slot's next chunk begins, or until the last chunk of
/// the log does.
std::vector<Change> changes_of(const LogReader& log) {
  uint64_t last = 0;
  for (const Slot& slot : log.slots()) {
    for (const Chunk& chunk : slot.chunks) last = std::max(last, chunk.start_ticks);
  }
  std::vector<Change> changes;
  for (const Slot& slot : log.slots()) {
    for (size_t i = 0; i < slot.chunks.size(); ++i) {
      const Chunk& chunk = slot.chunks[i];
      const auto bytes = static_cast<double>(chunk.end - chunk.begin);
      const uint64_t end = i + 1 < slot.chunks.size() ? slot.chunks[i + 1].start_ticks : last;
      if (end <= chunk.start_ticks) {
        changes.push_back({chunk.start_ticks, 0, bytes});
        continue;
      }
      const double rate = bytes / static_cast<double>(end - chunk.start_ticks);
      changes.push_back({chunk.start_ticks, rate, 0});
      changes.push_back({end, -rate, 0});
    }
  }
  std::ranges::sort(changes, {}, &Change::ticks);
  return changes;
}

}  // namespace

uint64_t total_bytes(const LogReader& log) {
  return sum_of(log.slots(), [](const Slot& slot) {
    return sum_of(slot.chunks, [](const Chunk& chunk) { return chunk.end - chunk.begin; });
  });
}

std::vector<uint64_t> window_bounds(const LogReader& log, uint64_t window_bytes) {
  const auto wanted = static_cast<double>(window_bytes);
  std::vector<uint64_t> bounds;
  double rate = 0, bytes = 0;
  uint64_t from = 0;
  // Damaged times can be so far apart that rounding errors would make windows without end.
  const size_t most = 2 * (total_bytes(log) / window_bytes + 1);
  const auto cut = [&](uint64_t ticks) {
    bytes = 0;
    from = ticks;
    if (bounds.size() < most && (bounds.empty() || ticks > bounds.back())) bounds.push_back(ticks);
  };
  for (const Change& change : changes_of(log)) {
    while (rate > 0 && bounds.size() < most) {
      const double ticks_left = (wanted - bytes) / rate;
      if (ticks_left >= static_cast<double>(change.ticks - from)) break;
      cut(std::min(change.ticks, from + static_cast<uint64_t>(ticks_left) + 1));
    }
    bytes += std::max(rate, 0.0) * static_cast<double>(change.ticks - from);
    from = change.ticks;
    rate += change.bytes_per_tick;
    bytes += change.at_once;
    if (bytes >= wanted) cut(change.ticks);
  }
  if (bounds.empty() || bounds.back() != UINT64_MAX) bounds.push_back(UINT64_MAX);
  return bounds;
}

}  // namespace gpupeak::collector
