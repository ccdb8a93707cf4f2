// Finds a moment of a run that users name, and who held memory then. `--at` of the views, of the
// report and of exports, and `diff --at A --at B` use it.
//
// in    "+1.25s", "warm-up done", "step", "step.end", "end"
// out   how many events had happened by then; what was live after them, by holder
//
// Without such a name a view shows a sum's peak, which needs no further replay.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"

namespace gpupeak::collector {

struct NamedMoment {
  static constexpr uint64_t kEnd = UINT64_MAX;
  uint64_t events = kEnd;  ///< how many events were before it, in the replay's order
  int64_t time_ns = 0;     ///< since the log's start
  std::string name;        ///< "+1.25s", "mark step", "the highest within step", "the end"
};

/// Who held a sum at its peak, or at another moment.
struct Held {
  ScopeId scope{};
  uint64_t bytes = 0;
  int64_t time_ns = 0;
  std::string moment;                ///< NamedMoment::name; empty: the peak
  std::optional<std::string> phase;  ///< in which the peak was made
  /// The calls that took it from the driver or the heap; and the same with the inside of arenas.
  /// Each of the two adds up to `bytes`.
  std::vector<Contribution> takers;
  PeakParts parts;
  /// For a phase, in held_then(): the sum over time while it was open, as the largest value of each
  /// part of that time.
  struct Point {
    int64_t time_ns;  ///< where the part begins
    uint64_t bytes;
  };
  std::vector<Point> curve = {};
  uint64_t events = 0;  ///< NamedMoment's; 0: the peak, or before the first event

  bool is_peak() const { return moment.empty(); }
};

/// The scopes of each device's memory and of the host's that the log has.
std::vector<ScopeId> sides(const Profile& profile);

/// Who held the sum at its peak, from the profile's own replay.
Held held_at_peak(const Profile& profile, ScopeId scope);
/// The sum's peak, without holders.
Held peak_of(const Profile& profile, ScopeId scope);

/// Finds the moment `at`. "end"; a time that parse_instant() reads: after all events up to then;
/// the name of a mark: the last one; the name of a phase or range: when `scope` was highest while
/// one was open; that name and ".end": when the last one ended. A mark comes before a phase of its
/// name, and both before another meaning of a name that ends in ".end". Throws UsageError for what
/// the log does not have. Replays the log once more.
NamedMoment find_moment(const Profile& profile, ScopeId scope, const std::string& at,
                        const Progress& progress = {});

/// When `scope` was at its peak. Replays the log once more.
NamedMoment peak_moment(const Profile& profile, ScopeId scope, const Progress& progress = {});

/// Who held each scope at each moment: result[moment][scope]. Replays the log once more, unless
/// only its end is asked for. Throws std::logic_error if holders do not add up to what was live.
std::vector<std::vector<Held>> held_at(const Profile& profile, const std::vector<ScopeId>& scopes,
                                       const std::vector<NamedMoment>& moments,
                                       const Progress& progress = {});

/// What a view shows. `at`: as for find_moment(); empty or "peak": the peak.
Held held_at(const Profile& profile, ScopeId scope, const std::string& at,
             const Progress& progress = {});

// Finds who held a sum at a moment that is not its peak: at a given time, or at the highest moment
// of a phase. It replays the log twice more: first to find the event at which that moment was, then
// to see what was live after that event. `gpupeak report --held` and `gpupeak view` use it;
// moment.h finds its events here.

/// A moment, named by one of these fields; if all are empty, the sum's own peak.
struct Moment {
  std::string phase{};  ///< when the sum was highest while a phase or range of this name was open
  std::optional<int64_t> time_ns{};  ///< since the log's start: after the last event up to then
  std::optional<uint64_t> event{};   ///< after the event of this number, as TimeSeries counts them
  std::string mark{};                ///< after the last mark of this name
  std::string end_of{};              ///< when the last phase or range of this name ended
};

/// Who held the sum at moments, in the order of `moments`; none for a phase that never was, and for
/// a time before the first event. Holders are the calls that took the memory from the driver,
/// without a look into arenas. Throws std::logic_error if they do not add up.
std::vector<std::optional<Held>> held_then(const Profile& profile, ScopeId scope,
                                           const std::vector<Moment>& moments,
                                           const Progress& progress = {});

}  // namespace gpupeak::collector
