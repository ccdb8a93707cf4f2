// Keeps the names of functions of a run's own programs and libraries in its logs, when the run has
// ended. So reports stay the same if these files are built anew, or removed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <csignal>
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

}  // namespace gpupeak::tools
