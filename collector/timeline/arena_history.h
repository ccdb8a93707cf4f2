// What arenas had in use and idle at each instant, piece by piece, for the page's maps. A log with
// few changes keeps all instants. A long log keeps chosen ones: peaks, borders of phases, failed
// allocations, the end, and the highest moment of each of equal parts of the run. In both cases the
// history is a list of steps, and each piece has the steps from which and up to which it was there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/timeline/instants.h"
#include "collector/timeline/time_series.h"

namespace gpupeak::collector {

struct ArenaHistory {
  struct Arena {
    size_t arena = 0;  ///< its number in the replay
    std::string name;
    int32_t place = 0;  ///< ArenaAccounts'
    uint64_t peak = 0, reserved_peak = 0;
    int64_t peak_ns = 0;
    uint64_t largest_block = 0, largest_refused = 0;
    /// It handed out blocks before the attach: what it has reserved is not known.
    bool has_older = false;
  };
  /// The state after an event.
  struct Step {
    int64_t time_ns = 0;
    std::string reason;  ///< "peak of PyTorch", "failed allocation"; empty: none
  };
  /// A segment. It is there from step `first` on, and no longer at step `end`. Blocks have the
  /// same.
  struct Segment {
    uint32_t arena = 0;
    uint64_t begin = 0, bytes = 0;
    bool captured = false;  ///< kept for a graph
    uint32_t first = 0, end = 0;
  };
  struct Block {
    static constexpr uint32_t kAlone = UINT32_MAX;
    uint32_t arena = 0;
    uint32_t segment = kAlone;  ///< the segment in which it began; kAlone: it has memory of its own
    uint64_t address = 0, bytes = 0;
    uint32_t row = 0;  ///< index into rows
    uint32_t first = 0, end = 0;
    uint64_t number = 0;  ///< ArenaUses'
  };
  /// As in BlockUses.
  struct Uses {
    bool is_known = false;
    uint64_t count = 0;
    int64_t first_ns = 0, last_ns = 0, idle_since_ns = 0, idle_ns = 0;
  };
  /// A run of neighbouring blocks that are not in `blocks`, at one step, with the idle memory
  /// between them.
  struct Several {
    uint32_t step = 0, arena = 0;
    uint64_t begin = 0, end = 0;  ///< both 0: blocks that lie in no segment
    uint64_t bytes = 0, count = 0;
  };
  /// Figures of a step that cannot be computed from the pieces, since some are left out.
  struct Holes {
    uint32_t step = 0, arena = 0;
    uint64_t largest = 0;
    /// Idle bytes in holes smaller than the largest block, and than the largest refused request.
    uint64_t below_block = 0, below_refused = 0;
    /// How many segments are left out, and their bytes.
    uint64_t left_out_segments = 0, left_out_bytes = 0;
  };
  /// The arena's own figures from a step on.
  struct Level {
    uint32_t step = 0, arena = 0;
    uint64_t in_use = 0, reserved = 0;
  };

  bool every = false;  ///< there is a step for each change
  std::vector<Arena> arenas;
  std::vector<Step> steps;
  std::vector<std::string> rows;  ///< sites
  std::vector<Segment> segments;  ///< in the order in which they came
  std::vector<Block> blocks;      ///< in the order in which they came
  std::vector<Uses> uses;         ///< for each block; empty: the log has no uses
  std::vector<Several> several;
  std::vector<Holes> holes;
  std::vector<Level> levels;
};

/// The most changes of all arenas together with which every instant is kept.
inline constexpr size_t kMaxArenaChanges = 40'000;
/// With more changes: how many instants are kept, and about how many pieces (blocks, segments and
/// runs of smaller blocks) these have in all.
inline constexpr size_t kMaxArenaInstants = 100;
inline constexpr size_t kMaxArenaBlocks = 30'000, kMaxArenaSegments = 10'000,
                        kMaxArenaSeveral = 40'000;

/// Replays the log once more, unless it has no arena. Throws std::logic_error if the blocks of an
/// arena do not add up to what it had in use.
ArenaHistory arena_history(Profile& profile, const TimeSeries& times, const Instants& instants,
                           const Progress& progress = {});

}  // namespace gpupeak::collector
