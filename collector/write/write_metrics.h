// The metrics of runs alone, in the forms that CI services and dashboards read. `gpupeak metrics`
// calls it; docs/ci.md says which program reads which form.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "collector/summary/summary.h"

namespace gpupeak::collector {

enum class MetricsFormat {
  kText,
  kJsonl,
  kBencher,
  kGithubBenchmark,
  kGoogleBenchmark,
  kMlflow,
  kWandb,
  kOtlpJson,
  kOpenMetrics
};

struct MetricsChoice {
  std::vector<std::string> names;             ///< empty: all
  std::string benchmark;                      ///< empty: the program's name
  std::map<std::string, std::string> labels;  ///< added to those of the run
};

/// A metric that was not measured is null in JSON lines; formats without null leave it out. Throws
/// UsageError for a name that a run does not have.
void write_metrics(const std::vector<Summary>& runs, MetricsFormat format,
                   const MetricsChoice& choice, std::ostream& out);

/// The program's name without its folder, or the log's name if the log has no command.
std::string program_of(const Summary& summary);

}  // namespace gpupeak::collector
