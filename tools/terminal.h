// What is known of the terminal, and the progress bar.
#pragma once

#include <chrono>
#include <string>

#include "collector/log/event_stream.h"
#include "collector/text/text_format.h"
#include "command_line.h"

namespace gpupeak::tools {

/// How to write text to a file descriptor.
collector::TextStyle style_for(int fd, const TextOptions& options);

/// A bar on standard error once something has taken a second; nothing unless that is a terminal.
class ProgressBar {
 public:
  /// `what`: what takes a while.
  explicit ProgressBar(const char* what = "reading") : what_(what) {}
  ~ProgressBar() { clear(); }
  collector::Progress callback();
  /// Takes it off the terminal again.
  void clear();

 private:
  const char* what_;
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now(), drawn_{};
  bool shown_ = false;
};

}  // namespace gpupeak::tools
