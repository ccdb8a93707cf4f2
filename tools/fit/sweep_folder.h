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

}  // namespace gpupeak::tools
