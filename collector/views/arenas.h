// `gpupeak arenas`: what arenas shared out, on two levels: the segments that they took, and the
// blocks in use and the holes in these, at any instant. Also how much each arena had in use at each
// mark.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "collector/timeline/last_use.h"
#include "collector/timeline/moment.h"
#include "collector/views/heading.h"

namespace gpupeak::collector {

/// An instant of a log, given by the number of events before it.
struct ArenaInstant {
  static constexpr uint64_t kEnd = UINT64_MAX;
  uint64_t events = kEnd;
  int64_t time_ns = 0;
  std::string name;  ///< "the peak of PyTorch on GPU 0", "mark step", "the end", "+1.25s"
};

struct ArenaBlock {
  uint64_t address = 0, bytes = 0;
  uint32_t name = 0, stack = 0;
  bool alone = false;  ///< in no segment
  // For a log with uses: how the block's uses stand to the instant, and by how long.
  UseAtPeak use = UseAtPeak::kNotKnown;
  int64_t use_ns = 0;
};
/// One arena at that instant.
struct ArenaState {
  ArenaTable::Level level;
  std::vector<ArenaTable::Segment> segments;  ///< by address
  std::vector<ArenaTable::Segment> holes;     ///< idle parts of the segments, by address
  std::vector<ArenaBlock> blocks;             ///< by address

  uint64_t largest_idle() const;
  /// Fragmentation: idle bytes in holes that are too small for a request of `bytes`.
  uint64_t idle_in_smaller(uint64_t bytes) const;
  /// Idle bytes that lie at no address at that instant, such as memory that is not mapped.
  uint64_t idle_unplaced() const;
  uint64_t alone_bytes() const;
};

/// Watches the first replay: notes marks, and when each arena's peak was.
class ArenaMoments : public ReplayObserver {
 public:
  struct AtMark {
    uint64_t events = 0;
    uint64_t ticks = 0;
    uint32_t name = 0;                      ///< Replay::name()
    std::vector<ArenaTable::Level> levels;  ///< of the arenas that existed then
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

/// `at`: "peak" (when the arena with the largest peak had most in use), else as find_moment() takes
/// it. Throws UsageError if the log has no such instant.
ArenaInstant arena_instant(const Profile& profile, const ArenaMoments& moments,
                           const std::string& at);
/// The state of each arena at that instant, by the arena's number. Replays the log once more.
std::vector<ArenaState> arenas_at(Profile& profile, const ArenaInstant& instant,
                                  const Progress& progress);

void write_arenas(Profile& profile, const ArenaMoments& moments, const ArenaInstant& instant,
                  const std::vector<ArenaState>& states, size_t top, std::ostream& out,
                  const ViewStyle& style);

}  // namespace gpupeak::collector
