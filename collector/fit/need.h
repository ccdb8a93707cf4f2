// How much memory of each device a run needs, and whether its log is good enough to say so.
// `gpupeak fit` and `gpupeak sweep` call it.
//
// in    a log; or the logs of all programs that one process ran, one after the other
// out   for each device:   least    with less than this the run fails
//                          most     with this the run succeeds: what it took when it was recorded
//                          enough   with this a simulation of the arena succeeds; between the two
//       and for each bound that does not hold, the reason
//
//   least 5.1 GiB   PyTorch had 4.6 GiB in use, and 0.5 GiB were outside of it
//   most  7.9 GiB   PyTorch kept 2.8 GiB idle beside that
//   enough 5.4 GiB  with that much PyTorch gives idle segments back in time
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/fit/arena_requests.h"
#include "collector/run/run_logs.h"
#include "collector/summary/fit.h"
#include "collector/summary/sweep.h"

namespace gpupeak::collector {

struct LogNeeds {
  Summary summary;
  std::vector<DeviceNeed> devices;  ///< those that the process used
};
/// Of one log, with the other programs that its process ran. Throws LogError.
LogNeeds needs_of(const std::string& path, const Options& options, const Progress& progress = {});

/// Where processes of the runs used a GPU and have no log, their memory comes on top of all that is
/// known: takes the upper bounds away. Returns which processes these are; empty: none is known.
std::string take_upper_bounds(const std::vector<RunLogs>& runs, std::vector<LogNeeds>& needs);

// What a run needs of each GPU, against a capacity or a card, and what would make it less.
//
// in    what each log's process needs of each device (need.h); "24 GiB", or a card, or all cards
// out   for each GPU of each machine: fits, may fit, does not fit; by how much; what holds the peak

/// What the user asks about: a capacity, or a card, or neither.
struct FitQuestion {
  std::optional<uint64_t> capacity;
  const Card* card = nullptr;
  std::vector<Card> cards;  ///< if nothing is asked: all cards that gpupeak knows
};

/// A part of the peak, or what a change would save.
struct FitChange {
  std::string what;
  uint64_t bytes = 0;
  bool slack = false;  ///< memory that nobody uses
  std::string advice;  ///< empty: none
};

/// One GPU of one machine, with all processes that used it.
struct FitDevice {
  std::string host;
  DeviceNeed need;           ///< what all of them need together
  std::vector<size_t> logs;  ///< indexes of the logs that used it
  std::optional<FitAnswer> answer;
  std::vector<FitAnswer> cards;    ///< one for each card of the question
  std::vector<FitChange> changes;  ///< largest first
  std::vector<TagShare> tags;      ///< of the peak of one process
};

struct FitReport {
  std::vector<std::string> logs;
  FitQuestion question;
  std::vector<FitDevice> devices;
  /// The worst answer of all devices; none: nothing was asked. kUnknown if no device was used.
  std::optional<Fit> fit;
};

/// GPUs are told apart by their UUIDs, within a machine.
FitReport answer_fit(const std::vector<LogNeeds>& logs, const FitQuestion& question);

// A recorded run with less memory. Where the driver would refuse a segment, the arena gives back
// its idle segments, or asks for a smaller one (arena_model.h). What others take meanwhile
// (libraries, the driver itself) must find room at once. need.cc asks with which amounts of memory
// this fails: a run may fail with more memory and succeed with less, if with less the arena gave
// back in time.
//
// A log does not tell how much was asked for if a block got a whole piece, nor where a new segment
// would lie (of equal pieces the lowest is taken). Variants try both extremes of both, and mixes.

struct HeldRun {
  bool fits = false;
  /// With at least this much memory the run goes the same way; with less it goes another way.
  uint64_t needed = 0;
};
inline constexpr unsigned kHeldRunVariants = 6;
/// The run with so much memory for the process, in bytes. `variant`: below kHeldRunVariants.
HeldRun hold(const ArenaRequests& history, uint64_t capacity, unsigned variant);

/// The ranges of bytes with which the run fails in some variant: ascending, with gaps between them.
/// The first one ends at `least` or above. Runs are tried from `most` bytes down, every amount with
/// which the run goes another way; if the history is too long for that, amounts with a distance
/// between them. An amount that was not tried counts as failing. None: the run fails even with
/// `most`, so the history cannot be this run's.
std::optional<std::vector<FitRange>> fails_for(const ArenaRequests& history, uint64_t least,
                                               uint64_t most);

// A sweep's runs, from their logs to what they say together. `gpupeak sweep` starts the programs.
//
// in    a run that has ended: its values, exit code and logs
// out   how it went and what it needed; then, for the runs of a group, what the capacity is, which
//       value fits, and which one to run next to show it
//
//   batch=8    done            needs 5.1 GiB
//   batch=16   done            needs 9.0 GiB
//   batch=32   out of memory   is not compared

/// Fills in what the run's logs say. `run` has its values, exit code, name and output already.
/// `card`: the card that is asked about; nullptr: none.
void read_run(SweepRun& run, const std::vector<std::string>& logs, const Card* card,
              const Options& options);

/// The same for a sweep that asks about the host's memory: what was resident of the run's
/// processes. `logs`: the started process's first.
void read_host_run(SweepRun& run, const std::vector<std::string>& logs, const SweepCapacity& there,
                   const Options& options);

/// Compares the runs of one group with the capacity that is asked about; if none is, with the card
/// that they ran on.
class SweepOutlook {
 public:
  /// `asked`: the capacity; an empty name: none is asked about.
  SweepOutlook(const std::vector<SweepRun>& runs, const SweepGroup& group, double step,
               const SweepCapacity& asked);

  const SweepCapacity& capacity() const { return capacity_; }
  const SweepPrediction& prediction() const { return prediction_; }

  /// Which run would show that the prediction is right.
  struct Check {
    bool is_shown = false;        ///< nothing is left to run
    std::optional<double> value;  ///< of the first parameter, to be run next; none: no run shows it
    std::string note;             ///< why not; empty: there is nothing to say
  };
  Check next_check() const;

 private:
  std::vector<const SweepRun*> runs_;
  double step_;
  SweepCapacity capacity_;
  SweepPrediction prediction_;
};

}  // namespace gpupeak::collector
