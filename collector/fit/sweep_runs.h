// A sweep's runs, from their logs to what they say together. `gpupeak sweep` starts the programs.
//
// in    a run that has ended: its values, exit code and logs
// out   how it went and what it needed; then, for the runs of a group, what the capacity is, which
//       value fits, and which one to run next to show it
//
//   batch=8    done            needs 5.1 GiB
//   batch=16   done            needs 9.0 GiB
//   batch=32   out of memory   is not compared
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/summary/sweep.h"

namespace gpupeak::collector {

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
