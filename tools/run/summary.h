// Makes the summary of a run's log while the log is compressed, if there are processors for both.
// So the first report is there at once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <string>

namespace gpupeak::tools {

class SummaryBeside {
 public:
  /// Begins in a process of its own, which can be killed at any time. Does nothing if there are not
  /// enough processors for compression and replay at the same time.
  explicit SummaryBeside(const std::string& log);
  SummaryBeside(const SummaryBeside&) = delete;
  SummaryBeside& operator=(const SummaryBeside&) = delete;
  /// Ends the process if the summary is not kept yet.
  ~SummaryBeside();

  /// To be called when the log has become the compressed file, which has the same content. Waits
  /// with a progress bar until the summary is kept, at most `most`, or until `stop` becomes true.
  /// False: it is not kept.
  bool keep(std::chrono::duration<double> most, const volatile sig_atomic_t& stop);

 private:
  pid_t child_ = -1;
  int word_ = -1;  // pipe to the child: the log will not change any more
  int news_ = -1;  // pipe from the child: how far it is
};

}  // namespace gpupeak::tools
