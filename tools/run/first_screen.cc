#include "tools/run/first_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <sstream>

#include "collector/analyze/kept_summary.h"
#include "collector/log/log_head.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/write/writers.h"
#include "tools/run/screen_lines.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {
namespace {

constexpr int kPatienceMs = 1000;

/// A process of its own that makes the lines, since it may die of damaged symbols, or of too little
/// memory.
class Attempt {
 public:
  Attempt(const std::string& log, const collector::Reading& reading,
          const collector::TextStyle& style) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    child_ = fork();
    if (child_ == 0) {
      begin_helper();
      write_screen(ends[1], log, reading, style);
    }
    close(ends[1]);
    pipe_ = ends[0];
  }
  explicit Attempt(const ScreenAhead::Child& child) : child_(child.process), pipe_(child.pipe) {}
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    if (pipe_ >= 0) close(pipe_);
  }

  /// The lines; nothing if it has failed or died. Says `slow` if that takes more than a moment.
  std::optional<std::string> wait(const std::string& slow) {
    if (child_ <= 0) {
      failed_ = true;
      return std::nullopt;
    }
    for (bool said = false;;) {
      pollfd wanted{pipe_, POLLIN, 0};
      const int ready = poll(&wanted, 1, said ? -1 : kPatienceMs);
      if (ready < 0 && errno == EINTR) continue;
      if (ready == 0) {
        said = true;
        if (!slow.empty()) say_text(slow);
        continue;
      }
      char bytes[4096];
      const ssize_t got = read(pipe_, bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text_.append(bytes, static_cast<size_t>(got));
    }
    const std::optional<int> ended = wait_for_child(child_);
    const int status = ended.value_or(0);
    failed_ = !ended || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
    was_stopped_ = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
    return failed_ || WIFSIGNALED(status) ? std::nullopt : std::optional(text_);
  }
  /// Whether it has failed: it threw, or no process could be made.
  bool failed() const { return failed_; }
  /// Whether a user did not want to wait (Ctrl-C).
  bool was_stopped() const { return was_stopped_; }

 private:
  pid_t child_ = -1;
  int pipe_ = -1;
  std::string text_;
  bool failed_ = false, was_stopped_ = false;
};

std::string slow_text(const std::string& log, const collector::Reading& reading,
                      const collector::TextStyle& style) {
  std::error_code error;
  const uint64_t bytes = std::filesystem::file_size(log, error);
  return fmt::format(
      "gpupeak: reading {}{} and the names of its functions (Ctrl-C: what was "
      "counted will do)\n",
      reading.sanitizer.text(log),
      error ? "" : fmt::format(" ({})", collector::size_text(bytes, style)));
}

}  // namespace

std::string first_screen(const std::string& log, const collector::Reading& reading,
                         const collector::TextStyle& style, ScreenAhead* ahead) {
  if (collector::KeptSummary(log, screen_options(reading)).find())
    return screen_lines(log, screen_options(reading), style);
  const std::string slow = slow_text(log, reading, style);
  bool was_stopped = false;
  if (ahead != nullptr) {
    Attempt knows_names(ahead->hand_over(log));
    if (auto text = knows_names.wait(slow)) return *text;
    was_stopped = knows_names.was_stopped();
  }
  if (!was_stopped) {
    Attempt with_names(log, reading, style);
    if (auto text = with_names.wait(slow)) return *text;
    if (with_names.failed()) return screen_lines(log, screen_options(reading), style);  // says why
    was_stopped = with_names.was_stopped();
  }
  if (!was_stopped) {
    collector::Reading nameless = reading;
    nameless.search.files = false;
    Attempt without(log, nameless, style);
    if (auto text = without.wait("")) return *text;
  }
  std::ostringstream text;
  collector::write_counters(collector::read_any_head(log), reading.sanitizer.text(log), text,
                            style);
  return text.str();
}

}  // namespace gpupeak::tools
