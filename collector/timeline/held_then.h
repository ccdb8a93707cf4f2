// Finds who held a sum at a moment that is not its peak: at a given time, or at the highest moment
// of a phase. It replays the log twice more: first to find the event at which that moment was, then
// to see what was live after that event. `gpupeak held` and `gpupeak view` use it; moment.h finds
// its events here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

/// A moment, named by one of these fields; if all are empty, the sum's own peak.
struct Moment {
  std::string phase{};  ///< when the sum was highest while a phase or range of this name was open
  std::optional<int64_t> time_ns{};  ///< since the log's start: after the last event up to then
  std::optional<uint64_t> event{};   ///< after the event of this number, as TimeSeries counts them
  std::string mark{};                ///< after the last mark of this name
  std::string end_of{};              ///< when the last phase or range of this name ended
};

/// The event that a moment comes right after.
struct MomentEvent {
  uint64_t number = 0;
  int64_t time_ns = 0;
};

struct HeldThen {
  int64_t time_ns = 0;
  uint64_t bytes = 0;
  std::vector<Contribution> held;  ///< adds up to `bytes`
  /// For a phase: the sum over time while it was open, as the largest value of each part of that
  /// time.
  struct Point {
    int64_t time_ns;  ///< where the part begins
    uint64_t bytes;
  };
  std::vector<Point> curve;
};
inline constexpr size_t kMaxCurvePoints = 400;

/// The events of moments, in the order of `moments`; none for a moment that never was, as in
/// held_then(). Replays the log once.
std::vector<std::optional<MomentEvent>> events_of(const Profile& profile, ScopeId scope,
                                                  const std::vector<Moment>& moments,
                                                  const Progress& progress = {});
/// Who held the sum at moments, in the order of `moments`; none for a phase that never was, and for
/// a time before the first event. Holders are the calls that took the memory from the driver,
/// without a look into arenas. Throws std::logic_error if they do not add up.
std::vector<std::optional<HeldThen>> held_then(const Profile& profile, ScopeId scope,
                                               const std::vector<Moment>& moments,
                                               const Progress& progress = {});

}  // namespace gpupeak::collector
