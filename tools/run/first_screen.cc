#include "tools/run/first_screen.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <utility>

#include "collector/fit/what_if.h"
#include "collector/log/log_head.h"
#include "collector/run/run_logs.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/text/work.h"
#include "collector/write/writers.h"
#include "tools/run/descendants.h"
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

int write_screen(int pipe, const std::string& log, const collector::Reading& reading,
                 const collector::TextStyle& style) {
  collector::Options options = screen_options(reading);
  options.process_ends = true;
  const std::string text = screen_lines(log, options, style);
  say_work();
  return write_text(pipe, text) ? 0 : 1;
}

namespace {

constexpr std::chrono::seconds kPatience{1};

/// What became of a helper that makes the lines.
struct Attempt {
  std::optional<std::string> text;  ///< none: it has failed or died
  bool failed = false;              ///< it threw, or no process could be made
  bool was_stopped = false;         ///< a user did not want to wait (Ctrl-C)
};

/// Says `slow` if that takes more than a moment.
Attempt lines_of(Helper helper, const std::string& slow) {
  std::string text;
  const auto take = [&text](std::string_view bytes) { text += bytes; };
  std::optional<int> ended = helper.wait(Helper::Clock::now() + kPatience, take);
  if (helper.is_there()) {
    say_text(slow);
    ended = helper.wait(Helper::Clock::time_point::max(), take);
  }
  const int status = ended.value_or(0);
  Attempt attempt;
  attempt.failed = !ended || (WIFEXITED(status) && WEXITSTATUS(status) != 0);
  attempt.was_stopped = WIFSIGNALED(status) && WTERMSIG(status) == SIGINT;
  if (ended == 0) attempt.text = std::move(text);
  return attempt;
}

Helper make_lines(const std::string& log, const collector::Reading& reading,
                  const collector::TextStyle& style) {
  return Helper([&](int, int lines) { return write_screen(lines, log, reading, style); });
}

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
                         const collector::TextStyle& style, Helper ahead) {
  const std::string slow = slow_text(log, reading, style);
  Attempt attempt;
  if (ahead.tell(log)) attempt = lines_of(std::move(ahead), slow);
  if (!attempt.text && !attempt.was_stopped) {
    attempt = lines_of(make_lines(log, reading, style), slow);
    if (attempt.failed) return screen_lines(log, screen_options(reading), style);  // says why
  }
  if (!attempt.text && !attempt.was_stopped) {
    collector::Reading nameless = reading;
    nameless.search.files = false;
    attempt = lines_of(make_lines(log, nameless, style), "");
  }
  if (attempt.text) return *attempt.text;
  std::ostringstream text;
  collector::write_counters(collector::read_head(log), reading.sanitizer.text(log), text, style);
  return text.str();
}

namespace {

namespace fs = std::filesystem;

/// The first screen of a log. Never throws: it says what is wrong with a log, so that `run` still
/// ends with the program's exit code.
std::string screen_of(const std::string& log, Helper ahead) {
  try {
    return first_screen(log, {}, style_for(STDERR_FILENO, {}), std::move(ahead));
  } catch (const std::exception& error) {
    say("{}: {}", collector::escape(log), collector::said_by(error));
    return {};
  }
}

}  // namespace

uint64_t unseen_rss_bytes(uint64_t largest_bytes, uint64_t known_bytes,
                          const std::vector<RunLog>& logs, const collector::RunRecord& seen) {
  constexpr uint64_t kNearly = 16;  // nearly as much: at most 1/16 less
  for (const RunLog& log : logs) {
    const gpupeak_counters_page counters = counters_of(log);
    if (counters.ended == 0) return 0;  // it may be this process: its last peak is not in the log
    known_bytes = std::max(known_bytes, counters.rss_peak_bytes);
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
  if (name.empty() || name == first.substr(0, kLongest) || counters_of(log).ended != 0) return;
  const auto known = std::ranges::find_if(
      unrecorded, [&](const auto& process) { return process.pid == log.header.pid; });
  auto& program = known != unrecorded.end() ? *known : unrecorded.emplace_back();
  program.pid = log.header.pid;
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

void tell_of_logs(const std::vector<RunLog>& logs, const std::string& children, Helper ahead) {
  say_text(screen_of(logs.front().path, std::move(ahead)));
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
