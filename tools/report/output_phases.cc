#include "tools/report/output_phases.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "collector/files/regular_file.h"

namespace gpupeak::tools {
namespace {

[[noreturn]] void fail(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

bool same_file(int a, int b) {
  struct stat of_a {
  }, of_b{};
  return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
         of_a.st_ino == of_b.st_ino;
}

void close_on_exec(int descriptor) {
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
}

bool is_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
  });
}

}  // namespace

OutputPhase parse_output_phase(const std::string& option) {
  const size_t at = option.find('=');
  if (at != std::string::npos && is_name(std::string_view(option).substr(0, at)) &&
      at + 1 < option.size()) {
    return {option.substr(0, at), option.substr(at + 1)};
  }
  return {option, option};
}

std::vector<const OutputPhase*> LineMatcher::add(std::string_view bytes) {
  std::vector<const OutputPhase*> found;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    line_.append(bytes.substr(0, end));
    const bool complete = end < bytes.size();
    bytes.remove_prefix(complete ? end + 1 : end);
    if (!complete && line_.size() < kLongestLine) break;
    for (const OutputPhase& phase : phases_) {
      if (line_.find(phase.text) == std::string::npos) continue;
      found.push_back(&phase);
      break;
    }
    line_.clear();
  }
  return found;
}

OutputPhases::OutputPhases(const std::vector<std::string>& options) {
  for (const std::string& option : options) phases_.push_back(parse_output_phase(option));
  ends_[STDOUT_FILENO] = channel_to(STDOUT_FILENO);
  // If both outputs are the same pipe, file or terminal, their order must stay.
  ends_[STDERR_FILENO] =
      same_file(STDOUT_FILENO, STDERR_FILENO) ? ends_[STDOUT_FILENO] : channel_to(STDERR_FILENO);
}

OutputPhases::~OutputPhases() {
  for (const Stream& stream : streams_) {
    if (stream.from >= 0) close(stream.from);
  }
}

/// Makes a pipe or a pseudo-terminal, and returns the program's end. The other end becomes a
/// stream.
int OutputPhases::channel_to(int target) {
  int ends[2];
  const bool is_terminal = isatty(target) == 1;
  if (is_terminal) {
    termios modes{};
    winsize size{};
    if (tcgetattr(target, &modes) != 0) fail("cannot read the terminal's modes");
    ioctl(target, TIOCGWINSZ, &size);
    modes.c_oflag &= ~static_cast<tcflag_t>(OPOST);  // the real terminal processes output
    if (openpty(&ends[0], &ends[1], nullptr, &modes, &size) != 0) fail("cannot make a terminal");
  } else if (pipe(ends) != 0) {
    fail("cannot make a pipe");
  }
  close_on_exec(ends[0]);
  close_on_exec(ends[1]);
  streams_.push_back({ends[0], target, LineMatcher(phases_), is_terminal});
  return ends[1];
}

void OutputPhases::redirect() const {
  for (const int descriptor : {STDOUT_FILENO, STDERR_FILENO}) dup2(ends_[descriptor], descriptor);
}

void OutputPhases::copy_window_size() const {
  for (const Stream& stream : streams_) {
    winsize size{};
    if (stream.is_terminal && ioctl(stream.to, TIOCGWINSZ, &size) == 0)
      ioctl(stream.from, TIOCSWINSZ, &size);
  }
}

void OutputPhases::begin(const OutputPhase& phase, pid_t child) {
  if (failed_) return;
  try {
    if (log_ == nullptr) {
      const std::string path = collector::log_of_process(child);
      if (path.empty()) return;  // the program itself records nothing
      log_ = std::make_unique<collector::LogAppender>(path);
    }
    log_->begin_phase(phase.name);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpupeak: no phase {}, nor any later one: {}\n", phase.name, error.what());
    failed_ = true;
  }
}

void OutputPhases::forward(Stream& stream, pid_t child, bool& ended) {
  char bytes[16 << 10];
  const ssize_t count = read(stream.from, bytes, sizeof bytes);
  if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (count <= 0) {  // a terminal fails with EIO when its last user has gone
    ended = true;
    return;
  }
  const std::string_view text(bytes, static_cast<size_t>(count));
  for (const OutputPhase* phase : stream.lines.add(text)) begin(*phase, child);
  if (!collector::write_all(stream.to, text, true)) ended = true;  // closed, so the program sees it
}

void OutputPhases::pump(pid_t child) {
  close(ends_[STDOUT_FILENO]);
  if (ends_[STDERR_FILENO] != ends_[STDOUT_FILENO]) close(ends_[STDERR_FILENO]);
  size_t open = streams_.size();
  while (open > 0) {
    std::vector<pollfd> waiting;
    for (const Stream& stream : streams_) waiting.push_back({stream.from, POLLIN, 0});
    if (poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno != EINTR) return;
      copy_window_size();  // the signal may be SIGWINCH
      continue;
    }
    for (size_t i = 0; i < streams_.size(); ++i) {
      if (waiting[i].revents == 0) continue;
      bool ended = false;
      forward(streams_[i], child, ended);
      if (!ended) continue;
      close(streams_[i].from);
      streams_[i].from = -1;  // poll skips it
      --open;
    }
  }
}

}  // namespace gpupeak::tools
