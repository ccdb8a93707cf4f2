#include "first_screen.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "collector/analyze/kept_summary.h"
#include "collector/log/log_head.h"
#include "collector/run/analyze_run.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/work.h"
#include "collector/write/write_counters.h"
#include "collector/write/write_short.h"
#include "say.h"

namespace gpupeak::tools {
namespace {

constexpr int kPatienceMs = 1000;

collector::Options options_of(const collector::Reading& reading) {
  collector::Options options;
  options.reading = reading;
  options.reading.heap = collector::HeapReading::kIfFew;
  options.stacks = false;
  options.keep = false;  // the log may be compressed after this, and is then another file
  return options;
}

std::string lines_of(const collector::Summary& summary, const collector::TextStyle& style) {
  std::ostringstream text;
  collector::write_short(summary, text, style);
  return text.str();
}

std::string replayed(const std::string& log, const collector::Reading& reading,
                     const collector::TextStyle& style) {
  return lines_of(collector::analyze_run(collector::logs_of_run(log), options_of(reading),
                                         collector::RunDepth::kGpus),
                  style);
}

void say_work() {
  if (getenv("GPUPEAK_WORK") == nullptr) return;
  const collector::Work& done = collector::work();
  say("work: {} records decoded, {} addresses looked up in {} files, {} of them scanned for types",
      done.records.load(), done.names.load(), done.files.load(), done.rtti_scans.load());
}

/// A process of its own that makes the lines: it may die of damaged symbols, or of too little
/// memory.
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
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
    }
    failed_ = WIFEXITED(status) && WEXITSTATUS(status) != 0;
    was_stopped_ = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
    return failed_ || WIFSIGNALED(status) ? std::nullopt : std::optional(text_);
  }
  /// There is no summary, and an exception says why; or there was no process to be had.
  bool failed() const { return failed_; }
  /// Somebody did not want to wait.
  bool was_stopped() const { return was_stopped_; }

 private:
  [[noreturn]] static void replay_into(int pipe, const std::string& log,
                                       const collector::Reading& reading,
                                       const collector::TextStyle& style) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_DFL);
    try {
      const std::string text = replayed(log, reading, style);
      say_work();
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
                          const collector::TextStyle& style) {
  if (collector::KeptSummary(log, options_of(reading)).find()) return replayed(log, reading, style);
  const std::string slow = slow_text(log, reading, style);
  Attempt with_names(log, reading, style);
  if (auto text = with_names.wait(slow)) return *text;
  if (with_names.failed()) return replayed(log, reading, style);  // says why
  if (!with_names.was_stopped()) {
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
