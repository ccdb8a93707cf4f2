#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>

#include "collector/files/fresh_file.h"
#include "collector/files/regular_file.h"
#include "collector/rules/cards.h"
#include "collector/summary/gate.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/run/memory.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

volatile sig_atomic_t g_sweep_child = 0;
volatile sig_atomic_t g_stopped = 0;

/// Passes a signal on to the program. A signal of the terminal reaches the program by itself, since
/// it is in our process group.
void stop(int signal, siginfo_t* info, void*) {
  g_stopped = 1;
  if (g_sweep_child > 0 && info->si_code != SI_KERNEL)
    kill(static_cast<pid_t>(g_sweep_child), signal);
}

/// The content of a file; none if another user made it, who may be in the folder's group.
std::optional<std::string> text_of(const std::string& path) {
  struct stat status {};
  if (lstat(path.c_str(), &status) != 0 || !collector::is_own(status, collector::folder_of(path)))
    return std::nullopt;
  constexpr uint64_t kMostBytes = 16 << 20;  // a command and its environment have 2 MiB at most
  return collector::read_regular(path, kMostBytes);
}

void write_text(const std::string& path, const std::string& text) {
  write_output(path, [&](std::ostream& out) { out << text; });
}

/// Runs `gpupeak run`. Returns its exit code, which is the program's.
int run_words(const std::vector<std::string>& words, const std::string& output) {
  unlink(output.c_str());
  const collector::Descriptor out(
      open(output.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666));
  return out ? run_program(words, out.get(), out.get(), &g_sweep_child) : kOwnFailure;
}

/// Ctrl-C and the other signals that end a command end the program that runs, then the sweep.
void stop_on_signals() {
  struct sigaction action {};
  action.sa_sigaction = stop;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(signal, &action, nullptr);
}

bool was_stopped() {
  return g_stopped != 0;
}

struct EndedRun {
  int exit_code = 0;
  double seconds = 0;
  bool from_before = false;
};

/// The folder of a sweep. For each value it has a folder with the log, the program's output, and,
/// once the run has ended, how it ended. So a later sweep goes on where one was interrupted.
///   gpupeak.sweep.train/batch=4/command   the words that were run
///                              /run.gplog, run.children/*.gplog
///                              /output.txt
///                              /ended     "exit 0\nseconds 12.5"; written when the run has ended
class SweepFolder {
 public:
  SweepFolder(std::string folder, const std::vector<collector::SweepParameter>& parameters,
              std::string host)
      : folder_(std::move(folder)), host_(std::move(host)), parameters_(parameters) {
    if (folder_.find('%') != std::string::npos)
      throw collector::UsageError(
          "--out: a folder without % in its name, which stands for parts of logs' names");
    std::error_code error;
    fs::create_directories(folder_, error);
    if (!fs::is_directory(folder_)) {
      throw collector::UsageError("--out {}: {}", collector::escape(folder_),
                                  error ? error.message() : "is no folder");
    }
    // Its content is trusted, and removed before a run.
    if (!collector::is_own_folder(fs::canonical(folder_))) {
      throw collector::UsageError("--out {}: it is another user's folder, or all may write there",
                                  collector::escape(folder_));
    }
  }

  std::string output(const collector::SweepValues& values) const {
    return place(values) + "/output.txt";
  }

  /// The logs of a run: the program's, then those of its children.
  std::vector<std::string> logs(const collector::SweepValues& values) const {
    std::vector<std::string> logs;
    std::error_code error;
    const fs::path main = fs::path(place(values)) / "run.gplog";
    if (fs::is_regular_file(main, error)) logs.push_back(main.string());
    std::vector<std::string> of_children;
    for (fs::directory_iterator entry(fs::path(place(values)) / "run.children", error), end;
         !error && entry != end; entry.increment(error)) {
      if (entry->path().extension() == ".gplog") of_children.push_back(entry->path().string());
    }
    std::ranges::sort(of_children);
    logs.insert(logs.end(), of_children.begin(), of_children.end());
    return logs;
  }

  /// Runs the command, or takes the run of the same command that an earlier sweep left, unless
  /// `again`. None: a signal interrupted the sweep. Throws std::runtime_error, and UsageError if
  /// the folder has a run of another command.
  std::optional<EndedRun> run(const collector::SweepValues& values,
                              const std::vector<std::string>& command, bool again) {
    const std::string folder = place(values);
    const auto held = collector::inner_folder(folder_, fs::path(folder).filename().string());
    std::string words = "--host " + host_ + "\n";
    for (const std::string& word : command) words += word + '\0';
    const std::optional<std::string> before = text_of(folder + "/command");
    if (before && *before != words && !again) {
      throw collector::UsageError(
          "{} holds a run of another command or --of: name another folder with --out, or run all "
          "anew with --again",
          collector::escape(folder));
    }
    EndedRun ended;
    if (const auto text = text_of(folder + "/ended"); text && before && !again) {
      ended.from_before = true;
      if (sscanf(text->c_str(), "exit %d\nseconds %lf", &ended.exit_code, &ended.seconds) == 2)
        return ended;
    }
    std::error_code error;
    // Files of an earlier run must not be taken for this run's.
    for (const char* old : {"ended", "run.gplog", "run.children"})
      fs::remove_all(fs::path(folder) / old, error);
    write_text(folder + "/command", words);
    std::vector<std::string> run{own_path().string(),   "run", "-q", "--host", host_, "-o",
                                 folder + "/run.gplog", "--"};
    run.insert(run.end(), command.begin(), command.end());
    const auto began = std::chrono::steady_clock::now();
    ended = {};
    ended.exit_code = run_words(run, output(values));
    ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    if (was_stopped()) return std::nullopt;
    write_text(folder + "/ended",
               fmt::format("exit {}\nseconds {:.3f}\n", ended.exit_code, ended.seconds));
    return ended;
  }

 private:
  std::string place(const collector::SweepValues& values) const {
    std::string name = collector::values_text(parameters_, values);
    for (char& c : name) {
      if (c == '/' || c == '%' || static_cast<unsigned char>(c) < ' ') c = '_';
    }
    std::erase(name, ' ');
    return (fs::path(folder_) / name).string();
  }

  const std::string folder_, host_;
  const std::vector<collector::SweepParameter>& parameters_;
};

/// The host's capacity in bytes: the limit of this process's control groups, else the machine's
/// memory.
collector::SweepCapacity host_capacity() {
  const uint64_t limit = MemoryKills().limit();
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const bool is_limited = limit != 0 && limit < machine;
  const uint64_t bytes = is_limited ? limit : machine;
  const char* const what = is_limited ? "this control group" : "this machine";
  return {bytes, bytes, fmt::format("{} ({})", what, collector::size_text(bytes))};
}

/// Runs that --verify may make for one group: at, above and below the predicted value.
constexpr int kMostChecks = 10;

struct SweepOptions : OutputOptions {
  std::vector<std::string> parameters, command;
  std::string capacity, gpu;  ///< empty: the card that it runs on
  std::string folder;         ///< empty: by the program's name
  std::string html;           ///< file of a page; empty: none
  std::string host = "off";
  std::string of = "gpu";  ///< whose memory is asked about; or "host"
  bool verify = false, again = false, quiet = false;
};

class Sweep {
 public:
  explicit Sweep(const SweepOptions& options) : options_(options) {
    for (const std::string& text : options.parameters) {
      report_.parameters.push_back(collector::parse_parameter(text));
      for (size_t i = 0; i + 1 < report_.parameters.size(); ++i) {
        if (report_.parameters[i].name == report_.parameters.back().name) {
          throw collector::UsageError("-P {}: given twice", report_.parameters.back().name);
        }
      }
    }
    if (!options.capacity.empty()) {
      const uint64_t bytes = collector::parse_size(options.capacity);
      if (bytes == 0) throw collector::UsageError("--capacity: 0 bytes are enough for nothing");
      capacity_ = {bytes, bytes, collector::size_text(bytes)};
    }
    if (is_of_host() && !options.gpu.empty())
      throw collector::UsageError("--gpu: a card has nothing of the host's memory; use --capacity");
    if (is_of_host()) {
      there_ = host_capacity();
      if (capacity_.name.empty()) capacity_ = there_;
    }
    if (!options.gpu.empty()) {
      card_ = &collector::find_card(options.gpu);
      capacity_ = {card_->least_bytes, card_->most_bytes, card_->name};
    }
    report_.command = options.command;
    all_ = collector::combinations(report_.parameters);
    // Throws if a parameter is not in the command, before anything runs.
    collector::command_for(options.command, report_.parameters, all_.front());
    folder_ = options.folder;
    if (folder_.empty())
      folder_ = "gpupeak.sweep." + fs::path(options.command.front()).filename().string();
    folder_ = fs::absolute(folder_).lexically_normal().string();
    report_.folder = folder_;
  }

  int run() {
    const bool counts = is_of_host() && options_.host == "off";
    SweepFolder folder(folder_, report_.parameters, counts ? "counters" : options_.host);
    stop_on_signals();
    signal(SIGPIPE, SIG_IGN);
    std::vector<collector::SweepValues> too_large;
    int failure = 0;
    for (const collector::SweepValues& values : all_) {
      const auto smaller = std::ranges::find_if(too_large, [&](const collector::SweepValues& of) {
        return collector::is_no_smaller(values, of);
      });
      if (smaller != too_large.end()) {
        collector::SweepRun& left = report_.runs.emplace_back();
        left.values = values;
        left.why = collector::values_text(report_.parameters, *smaller) + " ran out of memory";
        continue;
      }
      if (!make(folder, values, false, failure)) break;
      if (report_.runs.back().status == collector::SweepStatus::kOutOfMemory)
        too_large.push_back(values);
    }
    bool checked = true;
    if (failure == 0 && !was_stopped() && options_.verify) checked = verify(folder, failure);
    report_.interrupted = was_stopped();
    predict_all();
    if (failure != 0 && report_.runs.empty()) return failure;
    hide();
    write();
    if (failure != 0) return failure;
    if (report_.interrupted) return kSignalBase + SIGINT;
    const bool any = std::ranges::any_of(
        report_.runs, [](const auto& run) { return run.status == collector::SweepStatus::kDone; });
    return any && checked ? kOk : kGateFailed;
  }

 private:
  bool is_of_host() const { return options_.of == "host"; }

  /// Makes the run of these values, and adds it to the report. False: it was interrupted, or the
  /// program cannot be run at all; `failure` is the exit code then.
  bool make(SweepFolder& folder, const collector::SweepValues& values, bool for_check,
            int& failure) {
    const std::string name = collector::values_text(report_.parameters, values);
    const std::vector<std::string> command =
        collector::command_for(options_.command, report_.parameters, values);
    const std::optional<EndedRun> ended = folder.run(values, command, options_.again);
    if (!ended) return false;
    if (ended->exit_code == kNotFound || ended->exit_code == kCannotExec ||
        (ended->exit_code == kOwnFailure && folder.logs(values).empty())) {
      failure = ended->exit_code;
      say("{}: cannot be run; {} says why", collector::escape(name),
          collector::escape(folder.output(values)));
      return false;
    }
    collector::SweepRun run;
    run.values = values;
    run.for_check = for_check;
    run.from_before = ended->from_before;
    run.exit_code = ended->exit_code;
    run.seconds = ended->seconds;
    run.output = folder.output(values);
    const collector::Options analysis{.reading = options_.reading, .stacks = false};
    if (is_of_host())
      collector::read_host_run(run, folder.logs(values), there_, analysis);
    else
      collector::read_run(run, folder.logs(values), card_, analysis);
    if (!options_.quiet) say_run(name, run);
    report_.runs.push_back(std::move(run));
    return true;
  }

  void say_run(const std::string& name, const collector::SweepRun& run) const {
    const bool done = run.status == collector::SweepStatus::kDone;
    say("{}: {}{}", collector::escape(name),
        done ? fmt::format("peak {}, {:.1f} s", collector::size_text(run.peak_bytes), run.seconds)
        : run.status == collector::SweepStatus::kOutOfMemory
            ? "out of memory; what is no smaller is not run"
            : "left out: " + run.why,
        run.from_before ? " (from before)" : "");
  }

  /// Runs at the predicted value and at the step above it, and again if the runs show another
  /// value. False: the prediction could not be shown for all groups.
  bool verify(SweepFolder& folder, int& failure) {
    bool all = true;
    for (const collector::SweepGroup& group : collector::groups_of(report_.runs)) {
      all = verify_one(folder, group.others, failure) && all;
      if (failure != 0 || was_stopped()) return false;
    }
    return all;
  }

  bool verify_one(SweepFolder& folder, const collector::SweepValues& others, int& failure) {
    for (int i = 0; i < kMostChecks; ++i) {
      const std::vector<collector::SweepGroup> groups = collector::groups_of(report_.runs);
      const auto group = std::ranges::find(groups, others, &collector::SweepGroup::others);
      const collector::SweepOutlook::Check check = outlook(*group).next_check();
      if (!check.note.empty()) report_.notes.push_back(check.note);
      if (!check.value) return check.is_shown;
      collector::SweepValues values{collector::number_text(*check.value)};
      values.insert(values.end(), others.begin(), others.end());
      std::erase_if(report_.runs,
                    [&](const collector::SweepRun& run) { return run.values == values; });
      if (!make(folder, values, true, failure)) return false;
    }
    return false;
  }

  collector::SweepOutlook outlook(const collector::SweepGroup& group) const {
    return {report_.runs, group, report_.parameters.front().step, capacity_};
  }

  void predict_all() {
    for (const collector::SweepGroup& group : collector::groups_of(report_.runs)) {
      const collector::SweepOutlook of = outlook(group);
      report_.capacities.push_back(of.capacity());
      report_.predictions.push_back(of.prediction());
    }
  }

  /// Hides names, as --confidential asks. The parameters' values stay: the sweep is about them.
  void hide() {
    const collector::Sanitizer& sanitizer = options_.reading.sanitizer;
    if (!sanitizer.is_confidential()) return;
    for (std::string& word : report_.command) word = sanitizer.text(word);
    report_.folder = sanitizer.text(report_.folder);
    for (collector::SweepRun& run : report_.runs) {
      if (!run.log.empty()) run.log = sanitizer.text(run.log);
      if (!run.output.empty()) run.output = sanitizer.text(run.output);
    }
  }

  void write() const {
    write_output(options_.out, [&](std::ostream& out) {
      collector::write_sweep(report_, out, view_style(options_));
    });
    if (options_.html.empty()) return;
    write_output(options_.html,
                 [&](std::ostream& out) { collector::write_sweep_page(report_, out); });
    say_written(options_.html);
  }

  const SweepOptions& options_;
  std::string folder_;
  std::vector<collector::SweepValues> all_;
  collector::SweepCapacity capacity_;
  collector::SweepCapacity there_;  ///< the host's
  const collector::Card* card_ = nullptr;
  collector::SweepReport report_;
};

int sweep(const SweepOptions& options) {
  Sweep sweep(options);
  for (const std::string& out : {options.out, options.html}) require_output(out, {});
  return sweep.run();
}

}  // namespace

void add_sweep(CommandLine& line) {
  auto [verb, options] = line.add(
      "sweep", "Run a program with several values of a parameter: what each takes, what fits",
      sweep,
      R"(  gpupeak sweep -P batch=1,2,4,8 -- python3 train.py --batch {batch}
  gpupeak sweep -P batch=8:64:8 --capacity 24GiB --verify -- python3 train.py --batch {batch})");
  add_list(verb, "-P,--parameter", options.parameters, "NAME=VALUES",
           "Values for {NAME} in the command: batch=1,2,4,8 or batch=8:64:8; of several parameters "
           "all combinations")
      ->required();
  add_choice(verb, "--of", options.of, {"gpu", "host"}, "Whose memory is asked about");
  CLI::Option* capacity =
      add_value(verb, "--capacity", options.capacity, "SIZE",
                "The largest value for so much of a card like this one, or of the host: 24GiB");
  add_value(verb, "--gpu", options.gpu, "NAME", "The largest value for that card, such as T4")
      ->excludes(capacity);
  verb.add_flag("--verify", options.verify,
                "Run at the predicted value, too, and at the next one above");
  add_value(verb, "--out", options.folder, "FOLDER",
            "Folder that keeps a log for each value (gpupeak.sweep.PROGRAM)");
  verb.add_flag("--again", options.again, "Also run what is there from before");
  add_choice(verb, "--host", options.host, {"auto", "full", "sampled", "counters", "off"},
             "What to record of host memory");
  verb.add_flag("-q,--quiet", options.quiet, "No line for each run");
  verb.add_flag("--json", options.json, "As JSON");
  add_value(verb, "-o,--export", options.out, "FILE", "Write the result to a file");
  add_value(verb, "--html", options.html, "FILE", "Also write a page: the plot, with its tables");
  add_text_and_reading(verb, options);
  add_required(verb, "command", options.command, "-- PROGRAM ...",
               "The program and its arguments, with {NAME}");
  verb.positionals_at_end();
}

}  // namespace gpupeak::tools
