// Reads the names that the first screen will need while the program still runs: of libraries of
// hundreds of megabytes this takes longer than all else that happens behind the program's end.
//
//   program   ████████████████████████████▏ ends
//   run       ···························▕ hand_over() ▕ screen
//   ahead       ▒▒ look   ▒ look            ▒ names are known
//
// In a process of its own, since damaged symbols may end it: a thread of it looks, which has a
// processor only where nothing else wants it. `run` has one where processors are to spare.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "collector/rules/reading.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {

class ScreenAhead {
 public:
  /// Where the run's log lies by now; empty: there is none yet. Called in the other process.
  using FindLog = std::function<std::string()>;

  /// Begins, before this process has a second thread.
  ScreenAhead(const FindLog& find, const collector::TextStyle& style);
  ScreenAhead(const ScreenAhead&) = delete;
  ScreenAhead& operator=(const ScreenAhead&) = delete;
  /// Ends what was not handed over.
  ~ScreenAhead();

  static bool is_worth_it();

  struct Child {
    pid_t process = -1;  ///< -1: there is none
    int pipe = -1;       ///< gives the lines of the screen, then ends
  };
  /// The program has ended, and its log is this one. Whoever gets the child waits for it; it fails
  /// where the screen cannot be made so.
  Child hand_over(const std::string& log);
  /// Whether somebody else, the kernel in want of memory, has killed it.
  bool was_killed();

 private:
  Child child_;
  int word_ = -1;  // to the child: the log's name
};

}  // namespace gpupeak::tools
