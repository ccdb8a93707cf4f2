// The summary of a run's log, made beside its compression where processors are idle meanwhile, so
// that the first report need not wait for it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>

namespace gpupeak::tools {

class SummaryBeside {
 public:
  /// Begins, where it is worth it: in a process of its own, which can be given up at once.
  explicit SummaryBeside(const std::string& log);
  SummaryBeside(const SummaryBeside&) = delete;
  SummaryBeside& operator=(const SummaryBeside&) = delete;
  /// Gives it up.
  ~SummaryBeside();

  /// The log has become a file with the same content, and stays. Waits at most so long until the
  /// summary is kept.
  void keep(std::chrono::duration<double> patience);

 private:
  pid_t child_ = -1;
  int word_ = -1;  // to the child, when the log has become what it stays
};

}  // namespace gpupeak::tools
