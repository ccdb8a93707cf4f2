// Reads the names that the first screen will need, while the program still runs. With libraries of
// hundreds of megabytes that takes longer than everything else after the program's end.
//
//   program   ████████████████████████████▏ ends
//   run       ···························▕ hand_over() ▕ screen
//   ahead       ▒▒ look   ▒ look            ▒ names are known
//
// It works in a process of its own, since damaged symbols may end it. A thread there makes the
// looks; it gets a processor only if nothing else wants one. `run` uses it if processors are to
// spare.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "collector/rules/rule_book.h"
#include "collector/text/text_format.h"

namespace gpupeak::tools {

class ScreenAhead {
 public:
  /// The path of the run's log; empty: there is none yet. Called in the other process.
  using FindLog = std::function<std::string()>;

  /// Begins. To be called while this process has only one thread.
  ScreenAhead(const FindLog& find, const collector::TextStyle& style);
  ScreenAhead(const ScreenAhead&) = delete;
  ScreenAhead& operator=(const ScreenAhead&) = delete;
  /// Ends the other process unless it was handed over.
  ~ScreenAhead();

  static bool is_worth_it();

  struct Child {
    pid_t process = -1;  ///< -1: there is none
    int pipe = -1;       ///< gives the lines of the screen, then ends
  };
  /// To be called when the program has ended, with its log. The caller waits for the child that it
  /// gets. The child fails if it cannot make the screen.
  Child hand_over(const std::string& log);
  /// Whether somebody else has killed it, such as the kernel for want of memory.
  bool was_killed();

 private:
  Child child_;
  int word_ = -1;  // pipe to the child: the log's name
};

}  // namespace gpupeak::tools
