// What `run` does with its logs when the program has ended: it keeps names, makes a summary, and
// compresses.
//
// Keeps the names of functions of a run's own programs and libraries in its logs, when the run has
// ended. So reports stay the same if these files are built anew, or removed.
#pragma once

#include <chrono>
#include <csignal>
#include <cstddef>
#include <string>
#include <vector>

#include "tools/run/logs.h"
#include "tools/shared/child.h"

namespace gpupeak::tools {

/// Begins in a process of its own, so that the screen is made meanwhile. `which`: of which modules,
/// as the option names them. Time limit: with auto a fiftieth of the time that the program `ran`,
/// 50 ms to 2 s; with own a tenth of it, 2 s to 10 s; with all 20 s.
class NameKeeper {
 public:
  NameKeeper(const std::vector<RunLog>& logs, const std::string& which,
             std::chrono::nanoseconds ran);

  /// Waits until it has ended; no longer if `stop` becomes true. False: somebody has asked for all
  /// names, and the time limit was too short for them.
  bool wait(const volatile sig_atomic_t& stop);

 private:
  const bool is_asked_;
  const std::chrono::steady_clock::time_point until_;
  Helper helper_;
};

/// The most threads that compress one log.
inline constexpr size_t kCompressionThreads = 4;

/// Compresses the logs of a run in place: each keeps its name, and every verb reads it. `run` does
/// this last, when everything else is done and said. `when`: always, never, or auto, which leaves
/// out small logs. Logs that are still being written are left out. If `stop` becomes true, if there
/// is no room, or if anything else goes wrong, the log stays as it was. Meanwhile the summary of
/// the first log is made, if there are processors for it, so that the first report is there at
/// once.
void compress_logs(const std::vector<RunLog>& logs, const std::string& when, bool quiet,
                   const volatile sig_atomic_t& stop);

}  // namespace gpupeak::tools
