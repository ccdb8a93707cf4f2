// A run as a whole, of one process or of many.
//
// in    the logs of the run's processes (run_logs.h)
// out   the Summary of the process that held the most (the lead). Its whole_run has what all
//       processes held at once, each process, and what was not seen
//
//   launcher        0 B of GPU 0
//   worker 0        6 GiB of GPU 0     the lead: tables and phases are this process's
//   worker 1        5 GiB of GPU 0     whole_run: GPU 0 had 11 GiB at once
#pragma once

#include <string>

#include "collector/analyze/analyze.h"
#include "collector/run/run_logs.h"

namespace gpupeak::collector {

enum class RunDepth {
  /// Processes with GPUs are read in full (if none used a GPU: the largest ones); of the others
  /// only the counters are taken.
  kGpus,
  kAll,  ///< every process is read in full
};

/// The lead's Summary. It has whole_run if the run has several processes, or if `run` wrote down
/// what it saw. Throws LogError if the lead's log cannot be read. Other logs that cannot be read
/// count as lost.
Summary analyze_run(const RunLogs& run, const Options& options, RunDepth depth,
                    const Progress& progress = {});

/// What gates, scripts and comparisons see of a run, read from its log or from JSON that `report
/// --json` wrote. For a run of several processes, the run's metrics and GPUs take the place of the
/// lead's, the phases are those of all processes, and the quality is the worst of all. For a
/// process alone it is the process's Summary, unchanged. Throws as load_summary() does.
Summary load_run_figures(const std::string& name, const Options& options,
                         const Progress& progress = {});

}  // namespace gpupeak::collector
