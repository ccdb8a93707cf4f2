// What `run` does with its logs when the program has ended: it keeps names, makes a summary, and
// compresses.
//
// Keeps the names of functions of a run's own programs and libraries in its logs, when the run has
// ended. So reports stay the same if these files are built anew, or removed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "tools/run/logs.h"

namespace gpupeak::tools {

/// Of which modules; the names that the option has.
enum class NamesOf { kAuto, kOwn, kAll, kNone };
NamesOf names_of(const std::string& name);

/// Begins in a process of its own, since damaged symbols may end it, so that the screen is made
/// meanwhile. Time limit: with kAuto a fiftieth of the time that the program `ran`, 50 ms to 2 s;
/// with kOwn a tenth of it, 2 s to 10 s; with kAll 20 s.
class NameKeeper {
 public:
  NameKeeper(const std::vector<RunLog>& logs, NamesOf which, std::chrono::nanoseconds ran);
  NameKeeper(const NameKeeper&) = delete;
  NameKeeper& operator=(const NameKeeper&) = delete;
  ~NameKeeper();

  /// Waits until it has ended; no longer if `stop` becomes true. False: somebody has asked for all
  /// names, and the time limit was too short for them.
  bool wait(const volatile sig_atomic_t& stop);

 private:
  void end_child();

  const NamesOf which_;
  const std::chrono::steady_clock::time_point until_;
  pid_t child_ = -1;  // -1: there is none, or it has ended
};

// Makes the summary of a run's log while the log is compressed, if there are processors for both.
// So the first report is there at once.

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

// Compresses the logs of a run in place: each keeps its name, and every verb reads it. `run` does
// this last, when everything else is done and said.

/// The most threads that compress one log.
inline constexpr size_t kCompressionThreads = 4;

enum class Compression { kAuto, kAlways, kNever };
/// "auto", "always" or "never".
Compression compression(const std::string& name);

/// Leaves out logs that are still being written and, with kAuto, small logs. If `stop` becomes
/// true, if there is no room, or if anything else goes wrong, the log stays as it was. Meanwhile
/// the summary of the first log is made, if there are processors for it.
void compress_logs(const std::vector<RunLog>& logs, Compression compression, bool quiet,
                   const volatile sig_atomic_t& stop);

}  // namespace gpupeak::tools
