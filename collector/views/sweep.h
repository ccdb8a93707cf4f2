// `gpupeak sweep`: a table and a plot of what runs with different values of a parameter needed,
// curves through these needs, and the largest value that fits.
#pragma once

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "collector/summary/sweep.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

struct SweepReport {
  std::vector<SweepParameter> parameters;
  std::vector<std::string> command;  ///< as given, with {names} of parameters
  std::string folder;
  std::vector<SweepRun> runs;
  /// In the order of groups_of(runs); an empty name: not known.
  std::vector<SweepCapacity> capacities;
  std::vector<SweepPrediction> predictions;  ///< in the same order
  bool interrupted = false;
  std::vector<std::string> notes;
};

void write_sweep(const SweepReport& report, std::ostream& out, const TextStyle& style);
void write_sweep_json(const SweepReport& report, std::ostream& out);
/// A page of HTML that needs no other file.
void write_sweep_page(const SweepReport& report, std::ostream& out);

// What the text and the page of `gpupeak sweep` share: tags by size, and curves, runs and
// predictions in words.

using SweepRuns = std::vector<const SweepRun*>;

/// Whether the run was measured. The curve may leave it out all the same.
bool has_figures(const SweepRun& run);
uint64_t bytes_of(const SweepRun& run, const std::string& tag);
/// Tags by the most bytes that a run has of them, the largest first.
std::vector<std::string> largest_tags(const SweepRuns& runs);
/// "300 MiB + 37.0 MiB × batch".
std::string curve_text(const Curve& curve, const std::string& name, const TextStyle& style);
/// Why the run is left out, was not run or has no upper bound; empty: nothing of that.
std::string status_text(const SweepRun& run);
std::string prediction_text(const SweepReport& report, const SweepCapacity& capacity,
                            const SweepPrediction& prediction);
/// "batch, length=128  GPU 0 (H200)".
std::string sweep_title(const SweepReport& report, const SweepGroup& group);

}  // namespace gpupeak::collector
