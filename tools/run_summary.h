// The summary of a run's log, made beside its compression where processors are idle meanwhile, so
// that the first report of it is there at once.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <string>

namespace gpupeak::tools {

class SummaryBeside {
 public:
  /// Begins, where there are processors for it: in a process of its own, which can be given up at
  /// once.
  explicit SummaryBeside(const std::string& log);
  SummaryBeside(const SummaryBeside&) = delete;
  SummaryBeside& operator=(const SummaryBeside&) = delete;
  /// Gives it up.
  ~SummaryBeside();

  /// The log has become a file with the same content, and stays. Waits until the summary is kept,
  /// with a progress bar: at most so long, and until `stop` becomes true. False: it is not kept.
  bool keep(std::chrono::duration<double> most, const volatile sig_atomic_t& stop);

 private:
  pid_t child_ = -1;
  int word_ = -1;  // to the child, when the log has become what it stays
  int news_ = -1;  // from the child, how far it is
};

}  // namespace gpupeak::tools
