#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <regex>
#include <set>
#include <stdexcept>

#include "collector/log/clock_map.h"
#include "collector/log/log_appender.h"
#include "collector/rules/rule_book.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "tools/commands.h"
#include "tools/report/output_phases.h"
#include "tools/run/card_server.h"
#include "tools/run/descendants.h"
#include "tools/run/first_screen.h"
#include "tools/run/logs.h"
#include "tools/run/memory.h"
#include "tools/run/program.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

volatile sig_atomic_t g_child = 0;  // 0: none runs
volatile sig_atomic_t g_stop = 0;   // the program has ended, and a signal asks us to end
int g_exit_code = -1;               // of the program, once it has ended

/// The settings that we were started with, of signals that we ignore. The program gets them back.
sighandler_t g_on_pipe = SIG_DFL, g_on_file_limit = SIG_DFL;

void ignore_signals() {
  g_on_pipe = signal(SIGPIPE, SIG_IGN);  // the reader of our output may end first
  g_on_file_limit = signal(SIGXFSZ, SIG_IGN);
}
void stop_ignoring_signals() {
  signal(SIGPIPE, g_on_pipe);
  signal(SIGXFSZ, g_on_file_limit);
  restore_child_signal();
}

/// Passes on to the program a signal that was sent to us alone. One to our process group reaches
/// the program by itself, unless it has left the group.
void forward_signal(int signal, siginfo_t* info, void*) {
  const int error = errno;
  const auto child = static_cast<pid_t>(g_child);
  if (child == 0) {
    const bool ends =
        signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (ends) g_stop = 1;
  } else if ((!has_witness_got(signal) || getpgid(child) != getpgrp()) &&
             info->si_code != SI_KERNEL) {
    kill(child, signal);
  }
  errno = error;
}

void forward_signals() {
  struct sigaction action {};
  action.sa_sigaction = forward_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigfillset(&action.sa_mask);  // has_witness_got()
  start_witness();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM,
                           SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, SIGPWR, SIGSTKFLT}) {
    sigaction(signal, &action, nullptr);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) sigaction(signal, &action, nullptr);
}

/// Called in the child, in our memory: it is killed when we are, since SIGKILL cannot be passed on.
/// Who sends that to us alone (subprocess.run with a timeout) means the program, which would go on
/// and keep its GPU.
void end_with_launcher(pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) raise(SIGKILL);  // the launcher was killed before the call above
}

/// A secret number: only the run's processes know it, so a log that has it is theirs.
uint64_t secret_of_run() {
  uint64_t id = 0;
  while (id == 0 && getrandom(&id, sizeof id, 0) == sizeof id) {
  }
  return id;
}

/// Whether the process had children and has waited for them; true if that is not known. `end`: what
/// the kernel said when it had ended.
bool had_children(const std::optional<ProcessStat>& end) {
  return !end || end->faults_of_children > 0;  // every process has some minor faults
}

/// Waits for the program's end, not for its stops: the shell that stopped us together will resume
/// us together. What the kernel tells of it until it is waited for goes into `end`.
std::optional<int> wait_for(pid_t child, rusage& usage, std::optional<ProcessStat>& end) {
  siginfo_t ended{};
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  end = stat_of(child);
  return wait_for_child(child, &usage);
}

/// Checks that the library will understand the value, so that a mistake shows before the program
/// begins.
CLI::Validator matches(const std::string& pattern, const char* what) {
  return CLI::Validator(
      [pattern, what](const std::string& text) {
        const bool fits = std::regex_match(text, std::regex(pattern));
        return fits ? "" : fmt::format("'{}' is not {}", text, what);
      },
      "");
}

/// The steps of a run, in their order. Each leaves in the members what later steps need.
class Run {
 public:
  explicit Run(const RunOptions& options) : options_(options) {}

  int run() {
    find_places();
    prepare();
    start();
    wait();
    if (exec_error_ != 0) {
      say("cannot run {}: {}", collector::escape(options_.command[0]), strerror(exec_error_));
      return exec_error_ == ENOENT ? kNotFound : kCannotExec;
    }
    collector::RunRecord seen;
    descendants_->finish(seen);  // before logs are looked for: those left may begin one meanwhile
    finish_logs();
    record(std::move(seen));
    const std::chrono::nanoseconds ran(collector::clock_ns(CLOCK_REALTIME) - name_.began_ns);
    const collector::SymbolSearch gone = descendants_->gone_programs();
    NameKeeper(logs_, options_.names, ran, gone, true).wait(g_stop);  // the screen reads these
    if (!options_.quiet && !logs_.empty()) ahead_.tell(logs_.front().path);
    NameKeeper names(logs_, options_.names, ran, gone, false);
    if (!options_.quiet) tell();
    const bool are_kept = names.wait(g_stop);
    descendants_.reset();  // it has the files open
    wait_for_witness();
    if (!are_kept && !options_.quiet)
      say_text(
          fmt::format("  names: not all are kept for when programs are built anew, since that "
                      "takes too long or too much room; gpupeak bundle --symbols {} keeps them\n",
                      collector::escape(logs_.front().path)));
    compress_logs(logs_, options_.compress, options_.quiet, g_stop);
    return g_exit_code;
  }

 private:
  /// Finds the library and the place of the logs. A mistake in the options shows here, before the
  /// program begins.
  void find_places() {
    if (options_.out == "-")
      throw collector::UsageError("-o: a log is a file; standard output is the program's own");
    limit_variable(options_.limit, options_.gpu);
    ignore_signals();
    library_ = preload_library();
    if (library_.empty())
      throw std::runtime_error(
          "libgpupeak.so is not beside this command (../lib/gpupeak or ../preload)");
    const std::string& rules = options_.arena_rules;
    if (!rules.empty() && collector::read_rule_set(rules).arenas.empty())
      throw collector::UsageError("{} has no [[pool]]: docs/rules.md has one",
                                  collector::escape(rules));
    pattern_ = absolute_pattern(options_.out);
    children_ = children_pattern(pattern_);
    preload_ = preloadable_name(library_);
    if (options_.torch_modules || !options_.calls.empty()) python_.emplace(preload_, options_);
  }

  /// Sets up what must be there before the program, and says what is to be said before its output.
  void prepare() {
    if (pipe2(failure_, O_CLOEXEC) != 0) say("cannot make a pipe: {}", strerror(errno));
    is_writable_ = can_be_written(pattern_, options_.quiet);
    prepare_place(pattern_, options_.quiet);
    if (is_writable_ && !options_.quiet)
      say("recording {}   (-q to silence)", where_recorded(pattern_));
    if (!options_.phases_on_output.empty()) output_.emplace(options_.phases_on_output);
    name_ = {secret_of_run(), collector::clock_ns(CLOCK_REALTIME), 0};
    cards_.emplace(library_.string(), name_.id);
  }

  void start() {
    const pid_t launcher = getpid();
    RunOptions options = options_;
    options.quiet |= !is_writable_;  // prepare() has said it, if anything is to be said
    ProgramEnvironment environment(options, preload_, pattern_, children_, name_.id, [this] {
      if (python_) python_->set_environment();
    });
    const std::vector<char*> words = exec_arguments(options_.command);
    const pid_t child = vfork();  // NOLINT(clang-analyzer-security.insecureAPI.vfork)
    if (child < 0) throw std::runtime_error(fmt::format("cannot fork: {}", strerror(errno)));
    if (child == 0) {
      stop_ignoring_signals();
      end_with_launcher(launcher);
      if (output_) output_->redirect();
      become(words, environment.of(getpid()), failure_[1]);
    }
    g_child = name_.child = child;
    memory_.emplace();
    cards_->start();
    rusage own{};
    getrusage(RUSAGE_SELF, &own);
    own_rss_bytes_ = static_cast<uint64_t>(own.ru_maxrss) * 1024;
    if (!options_.quiet && is_writable_)
      ahead_ = read_names_ahead(
          [this] {
            const std::vector<RunLog> logs = find_logs({pattern_, children_}, name_);
            return logs.empty() ? "" : logs.front().path;
          },
          style_for(STDERR_FILENO, {}));
    forward_signals();
    close(failure_[1]);
    int error = 0;
    if (read(failure_[0], &error, sizeof error) == sizeof error) exec_error_ = error;
    close(failure_[0]);
    descendants_.emplace(child, library_.filename().string(), *memory_);
  }

  /// Waits for the program's end, and passes its output on meanwhile.
  void wait() {
    collector::builtin_name_rules();  // read now: whoever names things after the end is in a hurry
    if (output_) output_->pump(name_.child);
    rusage usage{};
    status_ = wait_for(name_.child, usage, end_);
    largest_rss_bytes_ = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
    ended_ns_ = collector::clock_ns(CLOCK_MONOTONIC);
    g_child = 0;
    cards_->stop();
    end_witness();
    if (!status_) say("how the program ended is not known: its end was taken by something else");
    g_exit_code = status_ ? exit_code(*status_) : kOwnFailure;
  }

  /// Finds the logs that the run has left, joins those of one process, and writes its end into
  /// each.
  void finish_logs() {
    logs_ = find_logs({pattern_, children_}, name_);
    drop_short_images(logs_);
    join_programs(logs_);
    take_name(logs_, pattern_);
    for (const RunLog& log : logs_) {
      if (log.of_child && status_)
        note_exit(log, {*status_, ended_ns_, had_children(end_) ? 0 : largest_rss_bytes_});
      cut_hole(log);
    }
    note_killed_children(logs_);
    for (const RunLog& log : logs_) add_curve(log);
  }

  /// Writes into a log what was resident of its process at each look from outside: nothing looks
  /// from inside while a program calls nothing.
  void add_curve(const RunLog& log) {
    const auto& curves = descendants_->curves();
    const auto curve = curves.find(static_cast<pid_t>(log.header.pid));
    if (curve == curves.end() || curve->second.start_time != log.header.process_start_time ||
        is_running(log))
      return;
    try {
      collector::LogAppender(log.path).samples(curve->second.points);
    } catch (const collector::LogError&) {  // no room
    }
  }

  /// Writes into the run's log what was seen of the run from outside.
  void record(collector::RunRecord seen) {
    if (children_option() == "none") {
      descendants_->add_not_recorded("--children none", seen);
    } else if (children_option() != "all") {
      descendants_->add_not_recorded(
          "little of it is heap or mappings, the rest static data, stacks or shared memory; "
          "--children all has its causes",
          seen);
    }
    // One that has become another user's since then has a log of ours.
    std::erase_if(seen.unrecorded, [this](const auto& one) {
      return std::ranges::any_of(logs_,
                                 [&one](const RunLog& log) { return log.header.pid == one.pid; });
    });
    std::set<pid_t> recorded;
    for (const RunLog& log : logs_) recorded.insert(static_cast<pid_t>(log.header.pid));
    descendants_->count_small(recorded, seen);
    seen.descendants_watched = descendants_->could_look();
    if (had_children(end_))
      seen.unseen_rss_bytes = unseen_rss_bytes(largest_rss_bytes_, own_rss_bytes_, logs_, seen);
    const int status = status_.value_or(0);
    seen.memory_kill = memory_->since(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    const bool was_ours = ahead_.was_killed();
    if (was_ours && seen.memory_kill && !seen.memory_kill->likely && --seen.memory_kill->kills == 0)
      seen.memory_kill.reset();
    if (!logs_.empty() && logs_.front().of_child && WIFEXITED(status))
      note_last_program(logs_.front(), options_.command[0], end_ ? end_->name : "",
                        seen.unrecorded);
    left_running_ = seen.left_running;
    record_run(logs_, std::move(seen));
  }

  void tell() {
    if (!logs_.empty()) {
      tell_of_logs(logs_, fs::path(children_).parent_path().string(), std::move(ahead_));
      if (python_) say_text(python_->text());
    } else if (is_writable_) {
      say_why_there_is_no_log(options_.command[0], children_option(), left_running_);
    }
  }

  const std::string& children_option() const { return options_.variables.at("GPUPEAK_CHILDREN"); }

  const RunOptions& options_;
  fs::path library_, preload_;      // the library; a name of it that LD_PRELOAD can hold
  std::string pattern_, children_;  // patterns of the logs: the program's, its children's
  bool is_writable_ = false;
  int failure_[2] = {-1, -1};  // pipe for the errno of an exec that fails
  int exec_error_ = 0;         // 0: the program began
  std::optional<OutputPhases> output_;
  std::optional<PythonHooks> python_;
  RunName name_{};
  std::optional<CardServer> cards_;
  std::optional<MemoryKills> memory_;
  Helper ahead_;  // none where it is not worth it
  std::optional<Descendants> descendants_;
  std::optional<int> status_;  // none: its end is not known
  std::optional<ProcessStat> end_;
  uint64_t ended_ns_ = 0, largest_rss_bytes_ = 0;  // of the program and its children
  uint64_t own_rss_bytes_ = 0;  // when it forked: the kernel counts it as the program's, too
  std::vector<RunLog> logs_;
  std::vector<collector::RunRecord::LeftRunning> left_running_;
};

int run(const RunOptions& options) {
  leave_orphans_to_parent();
  return Run(options).run();
}

/// The program runs whatever becomes of the recording, and its exit code is ours. If something of
/// ours goes wrong, we only say so.
int run_anyway(const RunOptions& options) {
  try {
    return run(options);
  } catch (const collector::UsageError&) {
    if (g_child == 0 && g_exit_code < 0) throw;
  } catch (const std::exception& error) {
    say("{}{}", error.what(),
        g_child == 0 && g_exit_code < 0 ? ". The program runs without being recorded" : "");
  }
  if (g_exit_code >= 0) return g_exit_code;
  if (g_child == 0) {
    stop_ignoring_signals();
    become(exec_arguments(options.command), environ, -1);
  }
  const std::optional<int> status = wait_for_child(static_cast<pid_t>(g_child));
  return status ? exit_code(*status) : kOwnFailure;
}

}  // namespace

void add_run(CommandLine& line) {
  auto [verb, options] =
      line.add("run", "Run a program and report the peak memory of its run", run_anyway,
               R"(  gpupeak run -- onnxruntime_perf_test -e cuda -I -r 100 model.onnx
  gpupeak run -o bert.gplog -- python3 train.py
  gpupeak run --host off -- ./bench             the device alone: next to no cost
  gpupeak run --children all -o ranks.%p.gplog -- torchrun --nproc-per-node 4 train.py)");
  add_value(verb, "-o,--out", options.out, "FILE",
            "Log file; %n program, %p process id, %r rank, %h host");
  verb.add_flag("-q,--quiet", options.quiet, "Say nothing; the log is written all the same");
  auto& variables = options.variables;
  add_choice(verb, "--host", variables["GPUPEAK_HOST"],
             {"auto", "full", "sampled", "counters", "off"}, "What to record of host memory");
  const auto add_flag = [&verb = verb, &variables](const char* name, const char* variable,
                                                   const char* value, const char* text) {
    return verb.add_flag_callback(
        name, [&to = variables[variable], value] { to = value; }, text);
  };
  add_flag("--dormant", "GPUPEAK_HOST", "counters",
           "Count the heap, and record it only between `gpupeak attach` and `gpupeak detach`")
      ->excludes("--host");
  add_value(verb, "--log-max", variables["GPUPEAK_LOG_MAX"], "SIZE",
            "Once the log has this size (1GiB), go on with a sample of the heap; off: never")
      ->check(
          matches("off|[0-9]*[1-9][0-9]*(b|B|[kKmMgG](iB|B)?)?", "a size such as 1GiB, or off"));
  add_value(verb, "--log-mode", variables["GPUPEAK_LOG_MODE"], "MODE",
            "Who may read the log, which holds arguments: a file mode such as 0640 (0600)")
      ->check(matches("0?6[0246][0246]", "a file mode such as 0640, with 0600 in it"));
  add_choice(verb, "--compress", options.compress, {"auto", "always", "never"},
             "Compress logs in their place in the end: those of 64 MiB and more, all, none");
  add_choice(verb, "--names", options.names, {"auto", "own", "all", "none"},
             "Whose names are kept in the log for when programs are built anew: own code, all with "
             "the system's packages, none; auto: own code as far as it is cheap");
  add_choice(verb, "--children", variables["GPUPEAK_CHILDREN"], {"gpu", "all", "none", "cuda"},
             "Which child processes record too");
  verb.add_flag(
      "--audit", options.audit,
      "Also record libraries opened with RTLD_DEEPBIND or dlmopen, by the loader's auditing");
  add_choice(verb, "--python", variables["GPUPEAK_PYTHON"], {"auto", "off"},
             "Python frames in the call sites of device memory");
  add_list(verb, "--phase-on-output", options.phases_on_output, "[NAME=]TEXT",
           "A line of the program's output with this text begins a phase (may be repeated)");
  add_list(verb, "--phase", options.calls, "NAME=[FILE!]FUNCTION#",
           "Each call of a Python function is a phase (may be repeated; docs/rules.md)");
  CLI::Option* const limit =
      add_value(verb, "--limit", options.limit, "SIZE|GPU=SIZE,…",
                "As on cards of this size: requests beyond it fail as the driver's do");
  add_value(verb, "--gpu", options.gpu, "NAME|GPU=NAME,…",
            "As on this card, such as T4 (docs/fit.md lists them)")
      ->excludes(limit);
  add_value(verb, "--pool-rules", options.arena_rules, "FILE",
            "Look into the allocators that the [[pool]] parts of this rule file describe")
      ->check(CLI::ExistingFile);
  add_flag("--last-use", "GPUPEAK_LAST_USE", "1",
           "Record when device memory was last seen used (`gpupeak report --last-use`)");
  add_flag("--ort-nodes", "GPUPEAK_ORT_NODES", "1",
           "Have ONNX Runtime write its profile of each session, and make phases of its nodes "
           "(costs time and host memory of its own: docs/phases.md)");
  verb.add_flag("--torch-modules", options.torch_modules,
                "Make phases of PyTorch's modules by their names, forward and backward "
                "(docs/phases.md has what it costs)");
  add_required(verb, "command", options.command, "-- PROGRAM ...", "The program and its arguments");
  verb.positionals_at_end();
}

}  // namespace gpupeak::tools
