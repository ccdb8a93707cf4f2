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

#include "collector/analyze/analyze.h"
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

std::string replayed(const std::string& log, const collector::Reading& reading,
                     const collector::TextStyle& style) {
  collector::Options options;
  options.reading = reading;
  options.stacks = false;
  std::ostringstream text;
  collector::write_short(collector::analyze(log, options), text, style);
  return text.str();
}

/// What comes through the pipe till its end; nothing if that does not come in time.
std::optional<std::string> read_until(int pipe, Clock::time_point deadline) {
  std::string text;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd wanted{pipe, POLLIN, 0};
    const int ready = left.count() > 0 ? poll(&wanted, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return std::nullopt;
    char bytes[4096];
    const ssize_t got = read(pipe, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(bytes, static_cast<size_t>(got));
  }
}

[[noreturn]] void replay_into(int pipe, const std::string& log, const collector::Reading& reading,
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

/// By a process of its own: whatever takes long there, a slow disk or a huge file of symbols, can
/// be given up at once. Nothing: it took too long. What fails is told by trying it again.
std::optional<std::string> replayed_in_time(const std::string& log,
                                            const collector::Reading& reading,
                                            const collector::TextStyle& style,
                                            Clock::time_point deadline) {
  int pipe[2];
  if (pipe2(pipe, O_CLOEXEC) != 0) return std::nullopt;
  const pid_t child = fork();
  if (child == 0) replay_into(pipe[1], log, reading, style);
  close(pipe[1]);
  std::optional<std::string> text;
  if (child > 0) text = read_until(pipe[0], deadline);
  close(pipe[0]);
  int status = 0;
  if (!text) {
    if (child > 0) kill(child, SIGKILL);
    waitpid(child, &status, WNOHANG);  // to free its memory takes time, too: not ours
    return std::nullopt;
  }
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool whole = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return whole ? text : replayed(log, reading, style);
}

}  // namespace

std::string short_summary(const std::string& log, const collector::Reading& reading,
                          const collector::TextStyle& style, double most_seconds) {
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
    if (auto text = replayed_in_time(log, reading, style, began + most - rest)) return *text;
  }
  std::ostringstream text;
  collector::write_counters(*head, reading.sanitizer.text(log), text, style);
  return text.str();
}

}  // namespace gpupeak::tools
