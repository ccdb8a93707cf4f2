// Where a verb's result goes: standard output or a file, and what may be overwritten.
#pragma once

#include <chrono>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/log/log_reader.h"
#include "collector/text/text_format.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {

// The terminal's properties, and the progress bar.

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

/// Whether the path means standard output: it is empty, or "-".
inline bool is_standard_output(const std::string& path) {
  return path.empty() || path == "-";
}
/// The descriptor whose terminal the text is for: standard output; -1 for a file.
inline int output_descriptor(const std::string& path) {
  return is_standard_output(path) ? 1 : -1;
}

/// `out` with %h replaced by this machine's name, so that one command line names another file on
/// each node; %% stands for %.
std::string expand_host(const std::string& out);

/// What else a verb may overwrite, besides files that are neither logs nor inputs.
enum class Replaces { kNoLogs, kPackedLogs };

/// To be called before anything is read. Throws UsageError if `path` is a folder, one of the
/// inputs, or a log: nobody means to overwrite these with a report.
void require_output(const std::string& path, const std::vector<std::string>& inputs,
                    Replaces replaces = Replaces::kNoLogs);

/// Writes to `path`, or to standard output. A file is written whole or not at all: a full disk
/// leaves the old file. What is no regular file (/dev/null, a pipe) is written to directly. Throws
/// std::runtime_error.
void write_output(const std::string& path, const std::function<void(std::ostream&)>& write,
                  unsigned mode = 0666);

/// How a verb's result is written.
collector::ViewStyle view_style(const OutputOptions& options);

/// Tells a user at a terminal that the file was written.
void say_written(const std::string& path);

/// As write_output(), for a function that makes the file itself, at the path `fresh`, which does
/// not exist yet.
void replace_file(const std::string& path,
                  const std::function<void(const std::string& fresh)>& write);

}  // namespace gpupeak::tools
