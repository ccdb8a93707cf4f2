// The terminal's properties, and the progress bar.
#pragma once

#include <chrono>
#include <string>

#include "collector/log/event_stream.h"
#include "collector/text/text_format.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {

/// How to write text to a file descriptor.
collector::TextStyle style_for(int fd, const TextOptions& options);

/// Shows a bar on standard error once a task has taken a second; nothing if that is no terminal.
class ProgressBar {
 public:
  /// `what`: name of the task.
  explicit ProgressBar(const char* what = "reading") : what_(what) {}
  ~ProgressBar() { clear(); }
  collector::Progress callback();
  /// Removes the bar from the terminal.
  void clear();

 private:
  const char* what_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now(), drawn_{};
  bool shown_ = false;
};

}  // namespace gpupeak::tools
