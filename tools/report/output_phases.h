// `run --phase-on-output`: phases that begin when the program prints a certain line. `run` reads
// the program's standard output and standard error, passes every byte on, and notes the phase in
// the program's log.
//
//   program ──"Epoch 2"──► OutputPhases ──"Epoch 2"──► terminal
//                              └ log: phase "Epoch 2" begins
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collector/log/log_appender.h"

namespace gpupeak::tools {

/// A phase that begins at each line that contains `text`.
struct OutputPhase {
  std::string name;
  std::string text;
};
/// Parses "NAME=TEXT", or "TEXT", which is then the name, too.
OutputPhase parse_output_phase(const std::string& option);

/// Finds lines that contain a text in output that comes in pieces. A carriage return ends a line
/// too.
class LineMatcher {
 public:
  explicit LineMatcher(const std::vector<OutputPhase>& phases) : phases_(phases) {}
  /// The phases of the lines that these bytes complete, in order.
  std::vector<const OutputPhase*> add(std::string_view bytes);

 private:
  static constexpr size_t kLongestLine = 64 << 10;

  const std::vector<OutputPhase>& phases_;
  std::string line_;
};

class OutputPhases {
 public:
  /// Makes a pipe for each output, or a pseudo-terminal if the output is a terminal. Throws
  /// std::system_error.
  explicit OutputPhases(const std::vector<std::string>& options);
  ~OutputPhases();

  /// To be called in the child, before exec.
  void redirect() const;
  /// To be called in the parent. Returns when the program and all that it started have closed their
  /// output.
  void pump(pid_t child);

 private:
  struct Stream {
    int from;  ///< our end of the pipe
    int to;    ///< where the output goes on to
    LineMatcher lines;
    bool is_terminal;
  };

  int channel_to(int target);
  void begin(const OutputPhase& phase, pid_t child);
  void forward(Stream& stream, pid_t child, bool& ended);
  void copy_window_size() const;

  std::vector<OutputPhase> phases_;
  std::vector<Stream> streams_;
  int ends_[3] = {-1, -1, -1};  // the program's ends, by number of the descriptor
  std::unique_ptr<collector::LogAppender> log_;
  bool failed_ = false;  ///< the log cannot be written; that was said
};

}  // namespace gpupeak::tools
