// `gpupeak pools`: what sub-allocators shared out, on two levels: the segments that they took, and
// in them the blocks in use and the holes, at a chosen instant; and how much each had in use at
// each mark.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/views/heading.h"

namespace gpupeak::collector {

/// An instant of a log: a number of the events before it.
struct PoolInstant {
  static constexpr uint64_t kEnd = UINT64_MAX;
  uint64_t events = kEnd;
  int64_t time_ns = 0;
  std::string name;  ///< "peak of PyTorch on GPU 0", "mark step", "end"
};

struct PoolBlock {
  uint64_t address = 0, bytes = 0;
  uint32_t name = 0, stack = 0;
};
struct PoolSegment {
  uint64_t begin = 0, end = 0;
};
/// One arena then.
struct PoolState {
  ArenaTable::Level level;
  uint64_t largest_idle = 0;
  std::vector<PoolSegment> segments;  ///< by address
  std::vector<PoolBlock> blocks;      ///< by address
};

/// Watches the first replay: marks, and when each arena's peak was.
class PoolMoments : public ReplayObserver {
 public:
  struct AtMark {
    uint64_t events = 0;
    uint64_t ticks = 0;
    uint32_t name = 0;                      ///< Replay::name()
    std::vector<ArenaTable::Level> levels;  ///< of the arenas that there were
  };
  void after(const Event& event) override;

  const std::vector<AtMark>& marks() const { return marks_; }
  /// The number of events up to the arena's peak.
  uint64_t peak_events(size_t arena) const {
    return arena < peaks_.size() ? peaks_[arena].second : 0;
  }

 private:
  static constexpr size_t kMaxMarks = 10'000;
  uint64_t events_ = 0;
  std::vector<AtMark> marks_;
  std::vector<std::pair<uint64_t, uint64_t>> peaks_;  // bytes, events
};

/// `at`: "peak" (when the largest arena had most in use), "end", or the name of a mark, of which
/// the last counts. Throws UsageError for one that there is not.
PoolInstant pool_instant(const Profile& profile, const PoolMoments& moments, const std::string& at);
/// Replays up to it once more. By arena.
std::vector<PoolState> pools_at(Profile& profile, const PoolInstant& instant,
                                const Progress& progress);

void write_pools(Profile& profile, const PoolInstant& instant, const std::vector<PoolState>& states,
                 size_t top, std::ostream& out, const TextStyle& style);
void write_pools_json(Profile& profile, const PoolMoments& moments, const PoolInstant& instant,
                      const std::vector<PoolState>& states, std::ostream& out);

}  // namespace gpupeak::collector
