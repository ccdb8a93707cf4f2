// The folder of a sweep. For each value it has a folder with the log, the program's output, and,
// once the run has ended, how it ended. So a later sweep goes on where one was interrupted.
//   gpupeak.sweep.train/batch=4/command   the words that were run
//                              /run.gplog, run.children/*.gplog
//                              /output.txt
//                              /ended     "exit 0\nseconds 12.5"; written when the run has ended
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collector/fit/sweep_runs.h"
#include "collector/summary/sweep.h"

namespace gpupeak::tools {

struct EndedRun {
  int exit_code = 0;
  double seconds = 0;
  bool from_before = false;
};

class SweepFolder {
 public:
  SweepFolder(std::string folder, const std::vector<collector::SweepParameter>& parameters,
              std::string host);

  const std::string& path() const { return folder_; }
  /// Runs the command, or takes the run of the same command that an earlier sweep left, unless
  /// `again`. None: a signal interrupted the sweep. Throws std::runtime_error, and UsageError if
  /// the folder has a run of another command.
  std::optional<EndedRun> run(const collector::SweepValues& values,
                              const std::vector<std::string>& command, bool again);
  /// The logs of a run: the program's, then those of its children.
  std::vector<std::string> logs(const collector::SweepValues& values) const;
  std::string output(const collector::SweepValues& values) const;

 private:
  std::string place(const collector::SweepValues& values) const;

  const std::string folder_, host_;
  const std::vector<collector::SweepParameter>& parameters_;
};

/// Ctrl-C and the other signals that end a command end the program that runs, then the sweep.
void stop_on_signals();
bool was_stopped();

// How much host memory a run of a sweep needed: the resident memory of its processes.

/// `logs`: the run's logs, the started process's first. Throws LogError.
collector::HostNeed host_need_of(const std::vector<std::string>& logs,
                                 const collector::Reading& reading);

/// The host's capacity in bytes: the limit of this process's control groups, else the machine's
/// memory.
collector::SweepCapacity host_capacity();

}  // namespace gpupeak::tools
