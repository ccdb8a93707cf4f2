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
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/timeline/time_series.h"

namespace gpupeak::collector {

struct Stacked {
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

/// Watches one replay for all devices and the host.
class Stacker {
 public:
  static constexpr size_t kParts = 7;
  /// The most moments of all sums together, and of one way to take one sum apart.
  static constexpr size_t kMostMoments = 6000, kMostOfOne = 2000;

  /// `ways`: some of kStackedBy.
  Stacker(Profile& profile, const TimeSeries& times, std::span<const GroupBy> ways);

  void on_step(std::span<const PeakFinder::Change> step) { change(step, false); }
  void on_arena_step(std::span<const PeakFinder::Change> step) { change(step, true); }
  /// `number`: the event's, from 0 on.
  void after(const Replay& replay, uint64_t number, uint64_t ticks);
  /// The result. A sum whose parts did not add up is left out: that happens if the log grew
  /// meanwhile.
  std::vector<Stacked> result();

 private:
  static constexpr size_t kEventsOfPart = 3, kMostArenas = 8;
  /// In place of a part: it does not count into the sum.
  static constexpr uint8_t kNone = UINT8_MAX;
  struct Way {
    bool of_holders = false;  ///< of a device's arenas and what is outside them; else of groups
    std::vector<uint8_t> part_of;  ///< by HolderId or group
    std::vector<int64_t> bytes;    ///< now, by part
    Stacked::By by;

    void change(size_t of, int64_t bytes);
  };
  struct Sum {
    std::string scope;
    int32_t device = -1;           ///< -1: the host
    std::vector<uint64_t> events;  ///< events after which moments are taken
    size_t next = 0;
    std::vector<Way> ways;
    ScopeId id{};
    bool adds_up = true;
  };
  /// What each group or holder is told apart by, as a number; none: it is not in the sum.
  using Keys = std::vector<std::optional<uint32_t>>;
  using TitleOf = std::function<std::string(uint32_t key)>;

  /// Counts a change of groups, or of holders.
  void change(std::span<const PeakFinder::Change> step, bool of_holders);
  Way way_of_holders(int32_t device, ScopeId driver, GroupBy by);
  Way way_of_groups(ScopeId id, GroupBy by);
  static void name_parts(Way& way, const Keys& keys, const std::vector<uint64_t>& at_peak,
                         const TitleOf& title_of);
  void take(const Replay& replay, Sum& sum, uint64_t ticks);

  Profile& profile_;
  std::vector<Sum> sums_;
};

}  // namespace gpupeak::collector
