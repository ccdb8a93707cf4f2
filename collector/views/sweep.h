// `gpupeak sweep`: a table and a plot of what runs with different values of a parameter needed,
// curves through these needs, and the largest value that fits.
#pragma once

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

}  // namespace gpupeak::collector
