#include "tools/run/first_screen.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>

#include "collector/analyze/kept_summary.h"
#include "collector/fit/what_if.h"
#include "collector/log/log_head.h"
#include "collector/run/analyze_run.h"
#include "collector/summary/whole_run_text.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/text/work.h"
#include "collector/write/writers.h"
#include "tools/run/resident.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

void say_work() {
  if (getenv("GPUPEAK_WORK") == nullptr) return;
  const collector::Work& done = collector::work();
  say("work: {} records decoded, {} addresses looked up in {} files, {} of them scanned for types",
      done.records.load(), done.names.load(), done.files.load(), done.rtti_scans.load());
}

}  // namespace

collector::Options screen_options(const collector::Reading& reading) {
  collector::Options options;
  options.reading = reading;
  options.reading.heap = collector::HeapReading::kIfFew;
  options.stacks = false;
  options.all_tables = false;
  options.complete = collector::add_quick_lowering;
  options.keep = false;  // the log may be compressed after this, and is then another file
  return options;
}

std::string screen_lines(const std::string& log, const collector::Options& options,
                         const collector::TextStyle& style, const collector::Progress& progress) {
  const collector::Summary summary = collector::analyze_run(collector::logs_of_run(log), options,
                                                            collector::RunDepth::kGpus, progress);
  std::ostringstream text;
  collector::write_short(summary, text, style);
  return text.str();
}

void write_screen(int pipe, const std::string& log, const collector::Reading& reading,
                  const collector::TextStyle& style) {
  try {
    collector::Options options = screen_options(reading);
    options.process_ends = true;
    const std::string text = screen_lines(log, options, style);
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

namespace {

namespace fs = std::filesystem;

/// The first screen of a log. Never throws: it says what is wrong with a log, so that `run` still
/// ends with the program's exit code.
std::string screen_of(const std::string& log, ScreenAhead* ahead) {
  try {
    return first_screen(log, {}, style_for(STDERR_FILENO, {}), ahead);
  } catch (const std::exception& error) {
    say("{}: {}", collector::escape(log), error.what());
    return {};
  }
}

}  // namespace

uint64_t unseen_rss_bytes(uint64_t largest_bytes, uint64_t known_bytes,
                          const std::vector<RunLog>& logs, const collector::RunRecord& seen) {
  constexpr uint64_t kNearly = 16;  // nearly as much: at most 1/16 less
  for (const RunLog& log : logs) {
    if (!has_end(log.path)) return 0;  // it may be this process: its last peak is not in the log
    known_bytes = std::max(known_bytes, rss_peak_of(log.path));
  }
  for (const auto& process : seen.unrecorded)
    known_bytes = std::max(known_bytes, process.rss_bytes.value_or(0));
  // A process that was seen counts as known only if little of this memory is its own. If much is,
  // and the process is not among those above, it was not recorded.
  for (const auto& process : seen.resident) {
    if (bytes_of_its_own(process) < kWorthWords)
      known_bytes = std::max(known_bytes, process.rss_bytes);
  }
  const bool is_known = largest_bytes - largest_bytes / kNearly <= known_bytes;
  return is_known || largest_bytes < kWorthWords ? 0 : largest_bytes;
}

void note_last_program(const RunLog& log, const std::string& command, const std::string& name,
                       std::vector<collector::RunRecord::Unrecorded>& unrecorded) {
  constexpr size_t kLongest = 15;  // the kernel cuts names to so many bytes
  const std::string first = fs::path(command).filename().string();
  if (name.empty() || name == first.substr(0, kLongest) || has_end(log.path)) return;
  const auto known = std::ranges::find_if(unrecorded, [&](const auto& process) {
    return process.pid == static_cast<uint32_t>(log.pid);
  });
  auto& program = known != unrecorded.end() ? *known : unrecorded.emplace_back();
  program.pid = static_cast<uint32_t>(log.pid);
  program.name = name;
  program.went_on = true;
  if (program.why.empty()) program.why = "it is static, or did not get LD_PRELOAD (env -i)";
}

void say_why_there_is_no_log(const std::string& program, const std::string& children,
                             const std::vector<collector::RunRecord::LeftRunning>& left) {
  const auto why = why_never_preloaded(program_file(program));
  say("{} left no log, so nothing was measured: {}.{}", collector::escape(program),
      why.value_or("it did not load gpupeak's library, or could not write a log"),
      children == "all" ? "" : " If it only starts the program that you mean, try --children all.");
  for (const auto& process : left) {
    const collector::WholeRun::StillRunning shown{
        process.pid, collector::escape(process.name), "", collector::escape(process.why),
        collector::resident_bytes(process.pid, process.start_time)};
    say_text(fmt::format("  {}\n", collector::still_running_text(shown, {})));
  }
}

void tell_of_logs(const std::vector<RunLog>& logs, const std::string& children,
                  ScreenAhead* ahead) {
  say_text(screen_of(logs.front().path, ahead));
  for (size_t i = 1; i <= logs.front().parts; ++i)
    say_text(fmt::format("  part: {}#{}\n", collector::escape(logs.front().path), i));
  constexpr size_t kMostNamed = 5;
  size_t beside = 0, in_folder = 0;
  for (size_t i = 1; i < logs.size(); ++i) {
    const bool is_child = logs[i].path.starts_with(children + "/");
    ++(is_child ? in_folder : beside);
    if (!is_child && beside <= kMostNamed)
      say_text(fmt::format("  also: {}\n", collector::escape(logs[i].path)));
  }
  if (beside > kMostNamed) say_text(fmt::format("  also: {} more\n", beside - kMostNamed));
  if (in_folder > 0) {
    say_text(fmt::format("  also: {} of child processes in {}\n",
                         in_folder == 1 ? "the log" : fmt::format("{} logs", in_folder),
                         collector::escape(children)));
  }
}

}  // namespace gpupeak::tools
