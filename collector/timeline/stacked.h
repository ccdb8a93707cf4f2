// What a sum consisted of over time, by site and by tag, for the page's curve. Memory in use in a
// device's arenas counts for who uses it, and idle memory for the arena, as in a report's peak.
//
// in    one replay; the sums over time, which say where the highest moment of each part is
// out   for each moment the parts that held most at the peak, and all others together: they add up
//       to the sum, to the byte. The moments are the highest, the lowest and the last of each part
//       of the run: between them the curve has steps
//
//   device:0 by tag   +1.0 s  weights 300, activations 0, others 20     +1.2 s  weights 300, …
#pragma once

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
    std::vector<std::string> parts;  ///< those with most at the peak first; the last is all others
    std::vector<Moment> moments;
  };
  std::string scope;  ///< a device, or the host
  By site, tag;       ///< without parts: nothing is tagged
};

/// Watches one replay for all devices and the host.
class Stacker {
 public:
  static constexpr size_t kParts = 7;
  /// The most moments of all sums together, and of one way to take one sum apart.
  static constexpr size_t kMostMoments = 6000, kMostOfOne = 2000;

  Stacker(Profile& profile, const TimeSeries& times);

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
    std::vector<uint8_t> part_of;  ///< by HolderId; for the host by group
    std::vector<int64_t> bytes;    ///< now, by part
    Stacked::By by;

    void change(size_t of, int64_t bytes);
  };
  struct Sum {
    std::string scope;
    int32_t device = -1;           ///< -1: the host
    std::vector<uint64_t> events;  ///< events after which moments are taken
    size_t next = 0;
    Way site, tag;
    std::optional<ScopeId> id;  ///< in the replay that is watched
    bool adds_up = true;
  };
  /// To which part each group or holder belongs, as a number; none: it is not in the sum.
  using Keys = std::vector<std::optional<uint32_t>>;
  using TitleOf = std::function<std::string(uint32_t key)>;

  /// Counts a change of a group (host) or of a holder (devices).
  void change(std::span<const PeakFinder::Change> step, bool of_devices);
  void add_device(ScopeId id);
  void add_host(ScopeId id);
  static void name_parts(Way& way, const Keys& keys, const std::vector<uint64_t>& at_peak,
                         const TitleOf& title_of);
  void take(const Replay& replay, Sum& sum, uint64_t ticks);

  Profile& profile_;
  std::vector<Sum> sums_;
};

}  // namespace gpupeak::collector
