// What was live at each instant, for the page, where a click on the curve shows it. A log with few
// changes keeps all of them, so any instant can be shown. A long log keeps chosen instants: peaks,
// borders of phases, failed allocations, and the highest moment of each of equal parts of the run.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/timeline/time_series.h"

namespace gpupeak::collector {

// What a sum consisted of over time, by site, tag, kind or phase, for pictures of it. Memory in use
// in a device's arenas counts for who uses it, and idle memory for the arena, as in a report's
// peak; but by kind all of it counts as the driver handed it out.
//
// in    one replay; the sums over time, which say where the highest moment of each part is
// out   for each moment the parts that held most at the peak, and all others together: they add up
//       to the sum, to the byte. The moments are the highest, the lowest and the last of each part
//       of the run: between them the curve has steps
//
//   device:0 by tag   +1.0 s  weights 300, activations 0, others 20     +1.2 s  weights 300, …
struct Stacked {
  static constexpr size_t kParts = 7;         ///< without the others
  static constexpr size_t kMostOfOne = 2000;  ///< moments of one way to take one sum apart

  struct Moment {
    int64_t time_ns = 0;
    std::vector<uint64_t> bytes;  ///< by part; they add up to the sum
  };
  struct By {
    GroupBy by = GroupBy::kSite;
    std::vector<std::string> parts;  ///< those with most at the peak first; the last is all others
    std::vector<Moment> moments;

    /// Whether anything has a name: not all of it is others.
    bool has_names() const { return parts.size() > 1; }
  };
  std::string scope;  ///< a device, or the host
  std::vector<By> ways;
};

/// In which ways a sum can be taken apart.
inline constexpr std::array kStackedBy{GroupBy::kSite, GroupBy::kTag, GroupBy::kKind,
                                       GroupBy::kPhase};

/// Each device, and the host, taken apart in one way. Replays the log once more.
std::vector<Stacked> stacked_over_time(Profile& profile, const TimeSeries& times, GroupBy by,
                                       const Progress& progress = {});

// The calls that held memory at some instants, as one tree with a bounded number of calls. A page
// draws the flame graph of each of these instants with it. What is below a call that is left out
// counts for its caller.
struct HeldCalls {
  struct Call {
    uint32_t caller = 0;           ///< index of an earlier call
    std::string title;             ///< empty: the root
    const Frame* frame = nullptr;  ///< nullptr: the root, or blocks without a stack
  };
  std::vector<Call> calls;  ///< the first is the root
  /// By group: the innermost call of its stack that is in `calls`.
  std::map<GroupId, uint32_t> ends;
};

/// `largest`: the most that each group held; calls with most are chosen. `most`: how many calls.
HeldCalls held_calls(Profile& profile, const std::map<GroupId, uint64_t>& largest, size_t most);

/// One kind of memory of one device, or of the host: the largest holders, and the sum of the
/// others.
struct KindHolders {
  int32_t device = -1;  ///< -1: the host, or no known device
  uint8_t kind = 0;
  struct Row {
    uint32_t row = 0;  ///< index into Instants::rows
    uint64_t bytes = 0, count = 0;
  };
  std::vector<Row> rows;  ///< largest first
  uint64_t other_bytes = 0, other_rows = 0;
};

/// What one place holds at an instant.
struct HeldThere {
  uint32_t place = 0;  ///< index into Instants::places
  uint64_t bytes = 0;
};

struct Instant {
  uint64_t event = 0;  ///< the number of the event right before the instant
  int64_t time_ns = 0;
  std::string reason;  ///< "peak of host", "failed allocation"; empty: the highest of a part
  std::vector<KindHolders> kinds;
  /// The stacks that hold most, largest first; only of sides whose changes are not all kept.
  std::vector<HeldThere> held;
};

/// A call stack, as part of a row of one kind on one side.
struct HeldPlace {
  int32_t device = -1;
  uint8_t kind = 0;
  uint32_t row = 0;   ///< index into Instants::rows
  uint32_t call = 0;  ///< index into HeldCalls::calls
};
/// What one step changes at one place. All changes of a step happen at once.
struct PlaceChange {
  int64_t time_ns = 0;
  uint32_t place = 0;  ///< index into Instants::places
  int64_t bytes = 0;
  int32_t count = 0;
  bool begins_step = false;
};
using PlaceChanges = std::vector<PlaceChange>;

struct Instants {
  std::vector<Holder> rows;  ///< the figures are in the instants
  std::vector<Instant> instants;
  std::vector<HeldPlace> places;
  HeldCalls calls;  ///< of the places
  /// All changes of a side, in their order; none: there are more than kMaxChanges.
  std::optional<PlaceChanges> device_changes, host_changes;
  std::vector<Stacked> stacked;
};

inline constexpr size_t kMaxInstants = 200;
inline constexpr size_t kMostCalls = 4000;     // in all
inline constexpr size_t kMostHeld = 60;        // stacks of an instant, of each device and the host
inline constexpr size_t kMaxChanges = 40'000;  // of a side; a page holds twenty bytes for each

/// Replays the log once more. Each kind has `top` rows by site, and the sum of the others: they add
/// up to the kind's bytes at that instant, to the byte. Throws std::logic_error if they do not.
Instants live_at_instants(Profile& profile, const TimeSeries& times, size_t top,
                          const Progress& progress = {});

// What arenas had in use and idle at each instant, piece by piece, for the page's maps. A log with
// few changes keeps all instants. A long log keeps chosen ones: peaks, borders of phases, failed
// allocations, the end, and the highest moment of each of equal parts of the run. In both cases the
// history is a list of steps, and each piece has the steps from which and up to which it was there.

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
