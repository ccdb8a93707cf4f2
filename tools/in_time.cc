#include "in_time.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <sstream>

#include "collector/analyze/kept_summary.h"
#include "collector/log/log_head.h"
#include "collector/text/error.h"
#include "collector/write/write_counters.h"
#include "collector/write/write_short.h"

namespace gpupeak::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// Of a log that no machine replays in a second: not even tried.
constexpr uint64_t kHopelessBytesPerSecond = 256 << 20;
constexpr std::chrono::milliseconds kForTheRest{100};  // to give up, and to show what was counted

collector::Options options_of(const collector::Reading& reading) {
  collector::Options options;
  options.reading = reading;
  options.stacks = false;
  return options;
}

std::string lines_of(const collector::Summary& summary, const collector::TextStyle& style) {
  std::ostringstream text;
  collector::write_short(summary, text, style);
  return text.str();
}

std::string replayed(const std::string& log, const collector::Reading& reading,
                     const collector::TextStyle& style) {
  return lines_of(collector::analyze(log, options_of(reading)), style);
}

/// A process of its own that makes the lines: whatever takes long there, a slow disk or a huge file
/// of symbols, can be given up at once.
class Attempt {
 public:
  Attempt(const std::string& log, const collector::Reading& reading,
          const collector::TextStyle& style) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    child_ = fork();
    if (child_ == 0) replay_into(ends[1], log, reading, style);
    close(ends[1]);
    pipe_ = ends[0];
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;
  ~Attempt() {
    if (pipe_ >= 0) close(pipe_);
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, WNOHANG);  // to free its memory takes time, too: not ours
  }

  /// The lines; nothing if they were not made by then.
  std::optional<std::string> wait_until(Clock::time_point deadline) {
    if (child_ <= 0) return std::nullopt;
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
      pollfd wanted{pipe_, POLLIN, 0};
      const int ready = left.count() > 0 ? poll(&wanted, 1, static_cast<int>(left.count())) : 0;
      if (ready < 0 && errno == EINTR) continue;
      if (ready <= 0) return std::nullopt;
      char bytes[4096];
      const ssize_t got = read(pipe_, bytes, sizeof bytes);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      text_.append(bytes, static_cast<size_t>(got));
    }
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    child_ = -1;
    failed_ = WIFEXITED(status) && WEXITSTATUS(status) != 0;
    const bool died = WIFSIGNALED(status);  // of too little memory or stack, or of damaged symbols
    return failed_ || died ? std::nullopt : std::optional(text_);
  }
  /// There is no summary, and an exception says why.
  bool failed() const { return failed_; }

 private:
  [[noreturn]] static void replay_into(int pipe, const std::string& log,
                                       const collector::Reading& reading,
                                       const collector::TextStyle& style) {
    try {
      const std::string text = replayed(log, reading, style);
      for (size_t done = 0; done < text.size();) {
        const ssize_t written = write(pipe, text.data() + done, text.size() - done);
        if (written < 0 && errno != EINTR) _exit(1);
        if (written > 0) done += static_cast<size_t>(written);
      }
      _exit(0);
    } catch (...) {
      _exit(1);
    }
  }

  pid_t child_ = -1;
  int pipe_ = -1;
  std::string text_;
  bool failed_ = false;
};

/// With names if they are found in time, else without: large libraries' symbols take longer than a
/// log that is read at once. That is begun when half the time has gone, since it takes from the
/// processors what finds the names. Nothing: neither was there. What fails is told by trying it
/// again.
std::optional<std::string> replayed_in_time(const std::string& log,
                                            const collector::Reading& reading,
                                            const collector::TextStyle& style, bool is_small,
                                            Clock::time_point deadline, Clock::time_point last) {
  Attempt with_names(log, reading, style);
  std::optional<Attempt> without;
  const auto now = Clock::now();
  std::optional<std::string> text = with_names.wait_until(now + (deadline - now) / 2);
  if (!text && !with_names.failed() && is_small) {
    collector::Reading nameless = reading;
    nameless.search.files = false;
    without.emplace(log, nameless, style);
  }
  if (!text && !with_names.failed()) text = with_names.wait_until(deadline);
  if (with_names.failed()) return replayed(log, reading, style);
  if (!text && without) text = without->wait_until(last);
  return text;
}

}  // namespace

std::string short_summary(const std::string& log, const collector::Reading& reading,
                          const collector::TextStyle& style, double most_seconds) {
  if (const auto kept = collector::KeptSummary(log, options_of(reading)).find())
    return lines_of(*kept, style);
  const auto began = Clock::now();
  const auto most = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(most_seconds));
  std::optional<collector::LogHead> head;
  try {
    head = collector::read_head(log);
  } catch (const collector::LogError&) {  // a packed one, a part, or none
    return replayed(log, reading, style);
  }
  const auto hopeless = kHopelessBytesPerSecond * static_cast<uint64_t>(most.count()) / 1000;
  if (head->bytes <= hopeless) {
    const auto rest = std::min(kForTheRest, most / 2);
    const bool is_small = head->bytes <= hopeless / 4;
    const auto deadline = began + most - rest, last = deadline + rest / 2;
    if (auto text = replayed_in_time(log, reading, style, is_small, deadline, last)) return *text;
  }
  std::ostringstream text;
  collector::write_counters(*head, reading.sanitizer.text(log), text, style);
  return text.str();
}

}  // namespace gpupeak::tools
