#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <iostream>
#include <iterator>
#include <thread>
#include <utility>

#include "collector/analyze/analyze.h"
#include "collector/log/log_reader.h"
#include "collector/rules/rule_book.h"
#include "collector/summary/verdict.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/scope_key.h"
#include "collector/timeline/time_series.h"
#include "tools/commands.h"
#include "tools/run/first_screen.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
#include "tools/top/top.h"

namespace gpupeak::tools {
namespace {

constexpr size_t kMostLogs = 500;

/// The programs that `top` shows, as they are at each look: of all logs below a folder, or of one
/// log.
class TopPrograms {
 public:
  TopPrograms(const std::string& place, const collector::Sanitizer& sanitizer)
      : folder_(place, kMostLogs), sanitizer_(sanitizer) {}

  void look() {
    const collector::FolderView view = folder_.look();
    in_all_ = view.logs.size() + view.left_out;
    using Seconds = std::chrono::duration<double>;
    const double now = Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
    std::vector<TopProgram> next;
    for (collector::FolderLog log : view.logs) {
      log.name = sanitizer_.text(log.name);
      log.facts.program = sanitizer_.text(log.facts.program);
      TopProgram* known = find(log.path);
      next.push_back(known != nullptr ? std::move(*known) : TopProgram());
      next.back().look(log, now);
    }
    all_ = std::move(next);
  }
  std::vector<TopProgram>& all() { return all_; }
  /// Also counts programs that are not shown, since there are too many.
  size_t in_all() const { return in_all_; }
  /// The program with this log; nullptr: there is none.
  TopProgram* find(const std::string& path) {
    const auto found = std::ranges::find_if(
        all_, [&](const TopProgram& program) { return program.log().path == path; });
    return found == all_.end() ? nullptr : &*found;
  }
  bool any_is_live() const {
    return std::ranges::any_of(all_,
                               [](const TopProgram& program) { return program.log().is_live(); });
  }

 private:
  collector::LogFolder folder_;
  const collector::Sanitizer& sanitizer_;
  std::vector<TopProgram> all_;
  size_t in_all_ = 0;
};

/// The part of a processor that replays may take, and the seconds that they may take at the start.
constexpr double kShareOfProcessor = 0.006, kAtFirst = 0.25;
constexpr double kBytesPerSecond = 50e6;
constexpr size_t kRows = 100;

struct GivenUp {};

double cpu_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

TopCurve curve_of(const collector::TimeSeries& times, const std::string& name,
                  const collector::ClockMap& clock) {
  TopCurve curve;
  const collector::Series* series = times.find(name);
  if (series == nullptr) return curve;
  for (size_t i = 0; i < series->buckets.size(); ++i) {
    const auto ns = static_cast<double>(times.begin_ns(series->first_bucket + i, clock));
    curve.push_back({ns / collector::kNsPerSecond, series->buckets[i].max});
  }
  return curve;
}

/// Replays the log up to its present end.
std::shared_ptr<const TopFindings> replay_for_top(const std::string& path,
                                                  const collector::Reading& reading,
                                                  const collector::Progress& progress = {}) {
  auto findings = std::make_shared<TopFindings>();
  const double before = cpu_seconds();
  try {
    const collector::LogReader log(path, reading.sanitizer, collector::HeapReading::kIfFew);
    const collector::Options options{.reading = reading, .top = kRows};
    collector::TimeSeries times;
    findings->log_bytes = log.used_bytes();
    findings->summary = collector::analyze(log, path, options, progress, &times);
    for (const collector::DeviceSummary& device : findings->summary.devices) {
      const std::string scope = collector::ScopeKey::device(device.ordinal).text();
      findings->devices[device.ordinal] = curve_of(times, scope, log.clock());
    }
    findings->heap = curve_of(times, "host/heap", log.clock());
    findings->at_seconds =
        static_cast<double>(findings->summary.run.duration_ns) / collector::kNsPerSecond;
  } catch (const collector::LogError& error) {
    findings->problem = error.what();
  } catch (const collector::UsageError& error) {
    findings->problem = error.what();
  }
  findings->cpu_seconds = cpu_seconds() - before;
  return findings;
}

// Replays logs for `top` in the background, one after the other, since only the events of a log
// tell holders, phases, pools and the ledger. It pauses between replays to stay below its share of
// a processor.
class TopReplay {
 public:
  explicit TopReplay(const collector::Reading& reading) : reading_(reading) {}
  ~TopReplay() {
    is_given_up_ = true;
    if (job_.valid()) job_.wait();
  }

  /// Begins a replay, unless one is under way or it would take more processor time than its share.
  /// `asked`: a user asked for it, so it may take any time. `before`: what the last replay of this
  /// log found.
  void want(const std::string& path, uint64_t log_bytes, const TopFindings* before, bool asked) {
    if (is_busy()) return;
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - began_;
    const double allowed = kAtFirst + kShareOfProcessor * passed.count();
    if (!asked && spent_ + estimate(log_bytes, before) > allowed) return;
    path_ = path;
    job_ = std::async(std::launch::async, [this] {
      return replay_for_top(path_, reading_, [this](uint64_t, uint64_t) {
        if (is_given_up_) throw GivenUp{};
      });
    });
  }
  bool is_busy() const { return job_.valid(); }
  /// Which log is being replayed.
  const std::string& path() const { return path_; }
  /// What the replay has found; only the first call after its end gets it.
  std::shared_ptr<const TopFindings> done() {
    if (!is_busy() || job_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
      return nullptr;
    auto findings = job_.get();
    spent_ += findings->cpu_seconds;
    return findings;
  }
  /// How many seconds a replay would take.
  static double estimate(uint64_t log_bytes, const TopFindings* before) {
    const uint64_t known = before != nullptr ? before->log_bytes : 0;
    const uint64_t added = log_bytes - std::min(log_bytes, known);
    // Finding the names takes as long as last time.
    return (before != nullptr ? before->cpu_seconds : 0) +
           static_cast<double>(added) / kBytesPerSecond;
  }

 private:
  const collector::Reading& reading_;
  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  double spent_ = 0;  ///< seconds of a processor
  std::string path_;
  std::atomic<bool> is_given_up_{false};
  std::future<std::shared_ptr<const TopFindings>> job_;
};

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

struct TopOptions : OutputOptions {
  std::string target = ".";
  double every = 1;
  bool once = false;
  std::string sort = kTopSorts[0], filter;
};

constexpr size_t kWholePage = 60;                     ///< lines of --once
constexpr std::chrono::milliseconds kOnceApart{500};  // between the two looks of --once, for rates

std::string place_of(const std::string& target) {
  std::error_code error;
  const std::string place =
      fs::is_directory(target, error) ? target : collector::log_of_target(target);
  if (!fs::exists(place, error))
    throw collector::LogError(collector::escape(place) + " is not there", 0);
  return place;
}

class Top {
 public:
  Top(const TopOptions& options, const std::string& place)
      : options_(options),
        place_(place),
        is_folder_(fs::is_directory(place)),
        style_(style_for(STDOUT_FILENO, options.text)),
        programs_(place, options.reading.sanitizer),
        replay_(options.reading) {
    view_.filter = options.filter;
    const auto* sort = std::find(std::begin(kTopSorts), std::end(kTopSorts), options.sort);
    view_.sort = static_cast<TopSort>(sort - std::begin(kTopSorts));
    programs_.look();
    if (!is_folder_ && programs_.all().empty())
      throw collector::LogError(
          collector::escape(place) + " is no log of this version, nor the number of a process", 0);
    if (!is_folder_) open_ = programs_.all().front().log().path;
  }

  int once() {
    TopProgram* one = programs_.find(open_);
    if (one != nullptr) one->take(replay_for_top(open_, options_.reading));
    if (programs_.any_is_live()) {
      std::this_thread::sleep_for(kOnceApart);
      programs_.look();
      one = programs_.find(open_);
    }
    for (const TopLine& line : one != nullptr ? page(*one, kWholePage) : list())
      std::cout << (line.look == TopLine::Look::kAlarm   ? collector::alarm(line.text, style_)
                    : line.look == TopLine::Look::kBold  ? collector::bold(line.text, style_)
                    : line.look == TopLine::Look::kFaint ? collector::faint(line.text, style_)
                                                         : line.text)
                << '\n';
    if (one != nullptr && !is_running()) say_view();
    return kOk;
  }

  int live() {
    if (is_folder_ || is_running()) watch();
    if (is_folder_ || is_running()) return kOk;
    std::cout << first_screen(open_, options_.reading, style_for(STDOUT_FILENO, options_.text));
    say_view();
    return kOk;
  }

 private:
  /// Says how to look around in the log, now that its program has ended.
  void say_view() const {
    std::cout << "  to walk in it: gpupeak view " << collector::quoted(open_) << '\n';
  }
  bool is_running() {
    const TopProgram* program = programs_.find(open_);
    return program != nullptr && program->log().is_live();
  }

  TopLines list() {
    return list_text(arranged(programs_.all(), view_), programs_.in_all(), view_, style_);
  }
  TopLines page(TopProgram& program, size_t rows) {
    view_.is_replaying = replay_.is_busy() && replay_.path() == program.log().path;
    view_.replay_seconds = TopReplay::estimate(program.log().bytes(), program.findings());
    return program_text(program, view_, rows, style_);
  }

  void watch() {
    TopScreen screen;
    style_.color = false;  // the screen colours the text itself
    style_.whole_lines = false;
    Clock::time_point next = Clock::now();
    while (!is_over_) {
      if (!is_frozen_ && Clock::now() >= next) {
        programs_.look();
        next = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(options_.every));
        if (!is_folder_ && !is_running()) return;
      }
      if (!is_frozen_) replay();
      draw(screen);
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now());
      const int longest = static_cast<int>(1000 * options_.every) + 1;
      const int wait =
          is_frozen_ ? longest : std::clamp<int>(static_cast<int>(left.count()), 0, longest);
      press(screen.wait(wait), screen);
    }
  }

  void replay() {
    if (const auto findings = replay_.done()) {
      if (TopProgram* program = programs_.find(replay_.path())) program->take(findings);
    }
    const TopProgram* program = programs_.find(open_);
    if (program == nullptr) return;
    // If the program has ended and its log was replayed to the end, nothing new comes.
    const TopFindings* found = program->findings();
    const bool is_read = found != nullptr && !program->log().is_live() && !wants_replay_ &&
                         found->log_bytes >= program->log().head.counters.file_bytes;
    if (!is_read) replay_.want(open_, program->log().bytes(), found, wants_replay_);
    wants_replay_ = wants_replay_ && !replay_.is_busy();
  }

  void draw(TopScreen& screen) {
    style_.width = screen.columns();
    TopProgram* program = programs_.find(open_);
    TopLines lines = program != nullptr ? page(*program, screen.rows()) : list();
    size_t first = 0;
    const size_t chosen_line = view_.chosen + kTopListHead;
    if (program == nullptr && chosen_line >= screen.rows()) first = chosen_line - screen.rows() + 1;
    screen.draw(lines, first, footer(program != nullptr));
  }

  TopFooter footer(bool one) const {
    if (is_typing_) return {"filter: " + view_.filter + "_   Enter: keep it  Esc: none", {}};
    TopFooter footer{is_frozen_ ? "FROZEN (space: go on)" : "", {{"q", "quit"}, {"?", "keys"}}};
    if (one && is_folder_) footer.keys.push_back({"Esc", "list"});
    if (one) {
      footer.keys.insert(footer.keys.end(),
                         {{"↑↓ Enter", "stack"}, {"p", "peak or now"}, {"r", "read the log"}});
    } else {
      footer.keys.insert(footer.keys.end(), {{"↑↓ Enter", "one program"}, {"s", "sort"}});
    }
    footer.keys.insert(footer.keys.end(), {{"/", "filter"}, {"space", "freeze"}});
    return footer;
  }

  size_t row_count() {
    if (const TopProgram* program = programs_.find(open_))
      return holders_of(*program, view_).size();
    return arranged(programs_.all(), view_).size();
  }
  void choose(ptrdiff_t by) {
    const auto count = static_cast<ptrdiff_t>(row_count());
    const ptrdiff_t from = view_.has_choice ? static_cast<ptrdiff_t>(view_.chosen)
                           : by > 0         ? -1
                                            : 0;
    view_.chosen =
        static_cast<size_t>(std::clamp<ptrdiff_t>(from + by, 0, std::max<ptrdiff_t>(count - 1, 0)));
    view_.has_choice = count > 0;
  }

  void press(const TopInput& input, const TopScreen& screen) {
    if (input.key == TopKey::kGone) is_over_ = true;
    if (is_typing_) {
      is_typing_ = type(input, view_.filter);
      return choose(0);
    }
    if (input.key == TopKey::kEnter) return enter();
    if (input.key == TopKey::kBack) return back();
    if (input.key == TopKey::kText) return command(input.text);
    if (const ptrdiff_t by = step_of(input.key, screen.rows() / 2); by != 0) choose(by);
  }

  void enter() {
    if (programs_.find(open_) != nullptr) {
      view_.shows_stack = !view_.shows_stack && view_.has_choice;
      return;
    }
    const auto shown = arranged(programs_.all(), view_);
    if (!view_.has_choice || view_.chosen >= shown.size()) return;
    open_ = shown[view_.chosen]->log().path;
    wants_replay_ = programs_.find(open_)->findings() == nullptr;
    forget_choice();
  }
  void back() {
    if (view_.shows_stack) {
      view_.shows_stack = false;
    } else if (is_folder_ && !open_.empty()) {
      open_.clear();
      forget_choice();
    }
  }
  void forget_choice() {
    view_.filter.clear();
    view_.has_choice = view_.shows_stack = false;
    view_.chosen = 0;
  }

  void command(char key) {
    if (key == 'q') is_over_ = true;
    if (key == ' ') is_frozen_ = !is_frozen_;
    if (key == '/') is_typing_ = true;
    if (key == 'r') wants_replay_ = true;
    if (key == 'p') view_.shows_other = !view_.shows_other;
    if (key == 's')
      view_.sort =
          static_cast<TopSort>((static_cast<size_t>(view_.sort) + 1) % std::size(kTopSorts));
  }

  const TopOptions& options_;
  const std::string place_;
  const bool is_folder_;
  collector::TextStyle style_;
  TopPrograms programs_;
  TopReplay replay_;
  TopView view_;
  std::string open_;  // path of the log that is shown by itself; empty: the list is shown
  bool is_frozen_ = false, is_typing_ = false, is_over_ = false, wants_replay_ = false;
};

int top(const TopOptions& options) {
  Top top(options, place_of(options.target));
  const bool terminal = isatty(STDOUT_FILENO) != 0 && isatty(STDIN_FILENO) != 0;
  return options.once || !terminal ? top.once() : top.live();
}

}  // namespace

void add_top_verb(CommandLine& line) {
  auto [verb, options] =
      line.add("top", "Watch the memory of programs that run", top,
               R"(  gpupeak top                                programs whose logs lie here
  gpupeak top 4711
  gpupeak top --once train.gplog)");
  add_value(verb, "what", options.target, "PID|LOG|FOLDER",
            "A process, its log, or a folder of logs; without it the current folder");
  verb.add_flag("--once", options.once, "Print one frame as plain text");
  add_number(verb, "--every", options.every, 0.1, 3600, "Look every so many seconds");
  add_choice(verb, "--sort", options.sort, {std::begin(kTopSorts), std::end(kTopSorts)},
             "Order of programs");
  add_value(verb, "--filter", options.filter, "TEXT", "Only rows that have this somewhere");
  add_text_and_reading(verb, options);
}

}  // namespace gpupeak::tools
