#include "tools/run/first_screen.h"

#include <fmt/format.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <memory>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <utility>

#include "collector/fit/what_if.h"
#include "collector/log/log_head.h"
#include "collector/log/parallel.h"
#include "collector/rules/rule_book.h"
#include "collector/run/run_logs.h"
#include "collector/summary/run_text.h"
#include "collector/symbols/module_symbols.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
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

/// The lines, made in the calling process. `options`: of screen_options(). Throws LogError.
std::string screen_lines(const std::string& log, const collector::Options& options,
                         const collector::TextStyle& style,
                         const collector::Progress& progress = {}) {
  const collector::Summary summary = collector::analyze_run(collector::logs_of_run(log), options,
                                                            collector::RunDepth::kGpus, progress);
  std::ostringstream text;
  collector::write_short(summary, text, style);
  return text.str();
}

/// For a helper: writes the lines to a pipe. Returns its exit code.
int write_screen(int pipe, const std::string& log, const collector::Reading& reading,
                 const collector::TextStyle& style) {
  collector::Options options = screen_options(reading);
  options.process_ends = true;
  const std::string text = screen_lines(log, options, style);
  say_work();
  return collector::write_all(pipe, text) ? 0 : 1;
}

constexpr std::chrono::seconds kMoment{1};

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
  std::optional<int> ended = helper.wait(Helper::Clock::now() + kMoment, take);
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
      "gpupeak: reading {}{} and the names of its functions (Ctrl-C: what was counted will do)\n",
      reading.sanitizer.text(log),
      error ? "" : fmt::format(" ({})", collector::size_text(bytes, style)));
}

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

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// How often the peaks are looked at: less and less often while they stay. Whether the program has
/// ended is asked more often, but for less of its time the longer it runs: then the kernel takes
/// its memory apart, for a tenth of a second if it has used a GPU, and a look costs no time at all.
constexpr Clock::duration kFirstWait = 100ms, kLongestWait = 2000ms, kFirstAsked = 10ms,
                          kLongestAsked = 100ms;
constexpr int kPartAsked = 64;
/// A look at once makes the program's end some 5 ms later (one H200, 60 turns). The kernel seems to
/// begin by what a busy processor holds up.
constexpr Clock::duration kUntilQuiet = 60ms;
/// A look for each new peak, each followed by a rest of twice its time; none after one that took so
/// long.
constexpr Clock::duration kLongestLook = 2000ms;
constexpr int kMostLooks = 8;
/// How long a look may go on when the program has ended: what it reads is needed.
constexpr Clock::duration kUntilLookEnds = 500ms;

struct SeenSoFar {
  uint64_t peaks = 0;      ///< what the GPUs' add up to; 0: no GPU was used
  bool has_ended = false;  ///< the program's own code, not yet its process
};
SeenSoFar seen_so_far(const std::string& log) {
  SeenSoFar seen;
  if (log.empty()) return seen;
  try {
    const gpupeak_counters_page page = collector::read_head(log).counters;
    for (uint32_t i = 0; i < page.device_count && i < GPUPEAK_LOG_MAX_DEVICES; ++i)
      seen.peaks += page.device[i].total.peak;
    seen.has_ended = page.ended != 0;
  } catch (const std::exception&) {  // its first page is being written
  }
  return seen;
}

struct ReadStopped {};  // ends the thread

/// Makes screens that nobody sees, so that the names in them are known.
class Looks {
 public:
  Looks(const std::function<std::string()>& find, const collector::Reading& reading,
        const collector::TextStyle& style)
      : find_(find),
        reading_(reading),
        style_(style),
        done_(std::async(std::launch::async, [this] { look_while_it_runs(); })) {}

  /// False: it does not end, since others have all processors.
  bool end() {
    stop_.request_stop();
    return done_.wait_for(kUntilLookEnds) == std::future_status::ready;
  }

 private:
  void look_while_it_runs() {
    const sched_param none{};
    sched_setscheduler(0, SCHED_IDLE, &none);  // of this thread
    collector::builtin_name_rules();           // they are read once
    uint64_t peak = 0;
    Clock::duration wait = kFirstWait;
    const auto began = Clock::now();
    auto next = began + wait;
    std::string log;
    for (int looks = 0;;) {
      const auto ran = Clock::now() - began;
      if (!rest(std::clamp<Clock::duration>(ran / kPartAsked, kFirstAsked, kLongestAsked))) return;
      const auto now = Clock::now();
      if (now >= next) log = find_();
      const SeenSoFar seen = seen_so_far(log);
      if (now < next && !seen.has_ended) continue;
      if (seen.has_ended) {
        if (seen.peaks > 0 && rest(kUntilQuiet)) look(log);
        return;
      }
      wait = seen.peaks != peak ? kFirstWait : std::min(wait * 3 / 2, kLongestWait);
      if (seen.peaks != peak && looks++ < kMostLooks) look(log);
      peak = seen.peaks;
      const auto took = Clock::now() - now;
      if (took > kLongestLook) return;
      next = Clock::now() + std::max(wait, 2 * took);
    }
  }
  void look(const std::string& log) const {
    try {
      screen_lines(log, screen_options(reading_), style_, [this](uint64_t, uint64_t) {
        if (stop_.stop_requested()) throw ReadStopped();
      });
      reading_.search.cache->keep_names();
    } catch (const std::exception&) {  // of a log that is being written; the last one tells
    }
  }

  /// False: it is to end.
  bool rest(Clock::duration time) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, stop_.get_token(), time, [] { return false; });
    return !stop_.stop_requested();
  }

  const std::function<std::string()>& find_;
  const collector::Reading& reading_;
  const collector::TextStyle& style_;
  std::stop_source stop_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::future<void> done_;
};

/// Each look leaves its memory to the next one, and the last one to the screen, which another
/// thread makes: new pages take longer than what is written into them.
void keep_memory() {
  constexpr int kMostKept = 64 << 20, kLargest = 4 << 20;
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_TRIM_THRESHOLD, kMostKept);
  mallopt(M_MMAP_THRESHOLD, kLargest);
}

/// What the program's output and others wait for the end of is not kept open here.
void close_all_but(int kept, int kept_too) {
  const auto [first, second] = std::minmax(kept, kept_too);
  unsigned from = STDERR_FILENO + 1;
  for (const unsigned next : {static_cast<unsigned>(first), static_cast<unsigned>(second), ~0U}) {
    if (from < next) close_range(from, next - 1, 0);
    from = next + 1;
  }
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

std::string first_screen(const std::string& log, const collector::Reading& reading,
                         const collector::TextStyle& style, Helper ahead) {
  const std::string slow = slow_text(log, reading, style);
  Attempt attempt;
  if (ahead.is_there()) attempt = lines_of(std::move(ahead), slow);
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

uint64_t unseen_rss_bytes(uint64_t largest_bytes, uint64_t known_bytes,
                          const std::vector<RunLog>& logs, const collector::RunRecord& seen) {
  constexpr uint64_t kNearly = 16;  // nearly as much: at most 1/16 less
  for (const RunLog& log : logs) {
    const gpupeak_counters_page counters = counters_of(log);
    if (counters.ended == 0) return 0;  // it may be this process: its last peak is not in the log
    known_bytes = std::max(known_bytes, counters.rss_peak_bytes);
  }
  for (const auto& process : seen.unrecorded) {
    if (process.of_another_run) return 0;  // it may be this process: that run knows its peak
    known_bytes = std::max(known_bytes, process.rss_bytes.value_or(0));
  }
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
  const std::string first = std::filesystem::path(command).filename().string();
  if (name.empty() || name == first.substr(0, kLongest) || counters_of(log).ended != 0) return;
  const auto known =
      std::ranges::find(unrecorded, log.header.pid, &collector::RunRecord::Unrecorded::pid);
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

// Reads the names that the first screen will need, while the program still runs. With libraries of
// hundreds of megabytes that takes longer than everything else after the program's end.
//
//   program   ████████████████████████████▏ ends
//   run       ···························▕ tells the log ▕ screen
//   ahead       ▒▒ look   ▒ look            ▒ names are known
//
// It works in a process of its own, since damaged symbols may end it. A thread there makes the
// looks; it gets a processor only if nothing else wants one. There is none if no processors are to
// spare.

Helper read_names_ahead(const std::function<std::string()>& find,
                        const collector::TextStyle& style) {
  constexpr size_t kProgramAndDriver = 3;
  if (collector::usable_processors() <= kProgramAndDriver) return {};
  const auto work = [&](int log_name, int lines) -> int {
    close_all_but(log_name, lines);
    be_spared_first();
    keep_memory();
    collector::Reading reading;
    reading.search.cache = std::make_shared<collector::ModuleCache>();
    Looks looks(find, reading, style);
    const std::string log = text_from(log_name);
    set_end_signals(SIG_DFL);
    if (log.empty() || !looks.end()) _exit(1);
    collector::forget_work();
    // Not to be left: that would wait for the thread.
    _exit(write_screen(lines, log, reading, style));
  };
  return Helper(work, SIG_IGN);  // a terminal's signals are the program's, until it has ended
}

}  // namespace gpupeak::tools
