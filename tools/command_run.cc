#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <regex>
#include <sstream>

#include "collector/rules/rule_book.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "in_time.h"
#include "output_phases.h"
#include "run_compress.h"
#include "run_logs.h"
#include "say.h"
#include "self.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

struct RunOptions {
  std::vector<std::string> command;
  std::string out;       ///< name or pattern of the log; empty: GPUPEAK_OUT, else the default
  std::string log_max;   ///< as GPUPEAK_LOG_MAX; empty: as the environment has it
  std::string host;      ///< as GPUPEAK_HOST; empty: as the environment has it
  std::string children;  ///< as GPUPEAK_CHILDREN
  std::string python;    ///< as GPUPEAK_PYTHON
  double summary_within_s = 1;                ///< then what was counted has to do
  std::string compress = "auto";              ///< run_compress.h
  std::vector<std::string> phases_on_output;  ///< as output_phases.h; empty: output is left alone
  std::string pool_rules;  ///< a file with [[pool]]; empty: as GPUPEAK_POOL_RULES
  bool ort_nodes = false;  ///< ONNX Runtime's sessions write a profile
  bool audit = false;      ///< reach clients that bypass a preloaded library
  bool quiet = false;
};

namespace fs = std::filesystem;

constexpr const char* kDefaultPattern = "gpupeak.%n.%p.%r.gplog";
constexpr const char* kChildPattern = "%n.%p.%r.gplog";
volatile sig_atomic_t g_child = 0;  // 0: none runs
volatile sig_atomic_t g_stop = 0;   // somebody wants us to end, whose program has ended

/// Signals sent to us alone go on to the program. What the terminal sends reaches it by itself,
/// since it is in our process group; then the sender is the kernel.
void forward_signal(int signal, siginfo_t* info, void*) {
  if (g_child == 0) {
    const bool ends =
        signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
    if (ends) g_stop = 1;
  } else if (info->si_code != SI_KERNEL) {
    kill(static_cast<pid_t>(g_child), signal);
  }
}

void forward_signals() {
  struct sigaction action {};
  action.sa_sigaction = forward_signal;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGALRM,
                           SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, SIGPWR, SIGSTKFLT}) {
    sigaction(signal, &action, nullptr);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) sigaction(signal, &action, nullptr);
}

/// In the child: SIGKILL cannot be handed on. Who sends it to us alone (subprocess.run with a
/// timeout) means the program, which would go on by itself and keep its GPU.
void end_with_launcher(pid_t launcher) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != launcher) raise(SIGKILL);  // it was killed before
}

uint64_t now_ns(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

/// A name for the library that LD_PRELOAD can hold: spaces and colons separate there and cannot be
/// escaped. Such a folder is named by a descriptor of ours, which stays open as long as we run.
fs::path preloadable(const fs::path& library) {
  if (library.string().find_first_of(" :") == std::string::npos) return library;
  const int folder = open(library.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return library;
  return fs::path(fmt::format("/proc/{}/fd/{}", getpid(), folder)) / library.filename();
}

std::string absolute_pattern(const RunOptions& options) {
  const char* variable = getenv("GPUPEAK_OUT");
  std::string pattern = options.out;
  if (pattern.empty()) pattern = variable != nullptr && *variable != 0 ? variable : kDefaultPattern;
  std::error_code error;
  if (pattern.ends_with('/') || fs::is_directory(pattern, error))
    pattern = fs::path(pattern) / kDefaultPattern;
  return fs::absolute(pattern).lexically_normal().string();
}

/// Where child processes' logs go. A name that tells processes apart is meant for all of them; else
/// they have a folder of their own, however many they are.
std::string children_pattern(const std::string& pattern) {
  if (pattern.ends_with(kDefaultPattern)) {
    return fs::path(pattern).parent_path() / fmt::format("gpupeak.{}.children", getpid()) /
           kChildPattern;
  }
  if (pattern.find('%') != std::string::npos) return pattern;
  const fs::path path(pattern);
  return path.parent_path() / (path.stem().string() + ".children") / kChildPattern;
}

void set_unless_empty(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

/// In the child: becomes the program. Writes errno to `failure` if that fails.
[[noreturn]] void exec_program(const RunOptions& options, const fs::path& library,
                               const std::string& pattern, const std::string& children,
                               int failure) {
  const char* others = getenv("LD_PRELOAD");
  const std::string preload =
      others != nullptr && *others != 0 ? library.string() + ":" + others : library.string();
  setenv("LD_PRELOAD", preload.c_str(), 1);
  setenv("GPUPEAK_OUT", pattern.c_str(), 1);
  setenv("GPUPEAK_CHILDREN_OUT", children.c_str(), 1);
  setenv("GPUPEAK_SUMMARY", "off", 1);
  setenv("GPUPEAK_RUN_PID", std::to_string(getpid()).c_str(), 1);
  if (options.audit) {
    const char* audits = getenv("LD_AUDIT");
    const std::string own = (library.parent_path() / "libgpupeak_audit.so").string();
    setenv("LD_AUDIT", (audits != nullptr && *audits != 0 ? own + ":" + audits : own).c_str(), 1);
  }
  set_unless_empty("GPUPEAK_HOST", options.host);
  set_unless_empty("GPUPEAK_LOG_MAX", options.log_max);
  set_unless_empty("GPUPEAK_CHILDREN", options.children);
  set_unless_empty("GPUPEAK_PYTHON", options.python);
  if (!options.pool_rules.empty())
    setenv("GPUPEAK_POOL_RULES", fs::absolute(options.pool_rules).c_str(), 1);
  if (options.quiet) setenv("GPUPEAK_QUIET", "1", 1);
  if (options.ort_nodes) setenv("GPUPEAK_ORT_NODES", "1", 1);
  // So that what comes from outside falls between the right events.
  if (!options.phases_on_output.empty()) setenv("GPUPEAK_STAMP_ALL", "1", 1);
  std::vector<char*> arguments;
  for (const std::string& argument : options.command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  const ssize_t written = write(failure, &error, sizeof error);
  _exit(written == sizeof error && error == ENOENT ? kNotFound : kCannotExec);
}

/// What the kernel still tells of a process that has ended and was not waited for yet.
struct Ended {
  bool had_children = true;  ///< and has waited for them; so where it is not known
  std::string name;          ///< of its last program, or what it called itself; empty: not known
};

Ended look_at_ended(pid_t process) {
  std::ifstream stat(fmt::format("/proc/{}/stat", process));
  const std::string text((std::istreambuf_iterator<char>(stat)), {});
  const size_t name_begin = text.find('('), name_end = text.rfind(')');
  if (name_begin == std::string::npos || name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  constexpr int kMinorFaultsOfChildren = 11, kFirst = 3;
  std::string field;
  for (int i = kFirst; i <= kMinorFaultsOfChildren; ++i) fields >> field;
  return {field != "0",  // any child has had minor faults
          text.substr(name_begin + 1, name_end - name_begin - 1)};
}

/// Waits for the program's end, not for its stops: the shell that stopped us together will resume
/// us together.
int wait_for(pid_t child, rusage& usage, Ended& end) {
  siginfo_t ended;
  while (waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  end = look_at_ended(child);
  int status = 0;
  while (wait4(child, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  return status;
}

/// Where only the started process has a log and a child of it was much larger: what the first
/// screen does not speak of.
void tell_of_children(const std::vector<RunLog>& logs, uint64_t largest_rss_bytes) {
  constexpr uint64_t kWorthWords = 16 << 20;
  const uint64_t own = rss_peak_of(logs.front().path);
  if (logs.size() != 1 || largest_rss_bytes < kWorthWords || largest_rss_bytes / 2 < own) return;
  say_text(
      fmt::format("  not recorded: child processes (--children all); the largest of them and "
                  "it had RSS {}\n",
                  collector::size_text(largest_rss_bytes, {})));
}

/// Where the log has no end though the process ended by itself, and under another name than it
/// began with: a wrapper has become a program that does not load the library.
void tell_of_last_program(const RunLog& log, const std::string& command, const std::string& name) {
  constexpr size_t kLongest = 15;  // the kernel's names
  const std::string first = fs::path(command).filename().string();
  if (name.empty() || name == first.substr(0, kLongest) || has_end(log.path)) return;
  say_text(
      fmt::format("  not recorded: {}, as the process was called in the end. A program that {} "
                  "becomes has no log if it is static or does not get LD_PRELOAD (env -i)\n",
                  collector::escape(name), collector::escape(first)));
}

void say_why_there_is_no_log(const std::string& program) {
  say("{0} left no log, so nothing was measured. A statically linked program (also most Go "
      "programs) and a setuid program do not load preloaded libraries; `ldd {0}` tells. If it only "
      "starts the program that you mean, try --children all.",
      collector::escape(program));
}

/// Never throws: what is wrong with a log is said, and the program's exit code stays ours.
std::string first_screen(const std::string& log, double patience_s) {
  try {
    return short_summary(log, {}, style_for(STDERR_FILENO, {}), patience_s);
  } catch (const std::exception& error) {
    say("{}: {}", collector::escape(log), error.what());
    return {};
  }
}

/// Returns what it has said of the first log.
std::string print_summary(const std::vector<RunLog>& logs, const std::string& children,
                          double patience_s) {
  const std::string said = first_screen(logs.front().path, patience_s);
  say_text(said);
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
  return said;
}

/// The first screen of a log whose summary is kept by now, if it was said without its names, or as
/// it was counted.
void complete_summary(const std::string& log, const std::string& said, double patience_s) {
  const std::string whole = first_screen(log, patience_s);
  if (whole != said) say_text(whole);
}

/// What the library takes for a size, so that a mistake ends before the program begins.
std::string log_size(const std::string& text) {
  static const std::regex size("[0-9]*[1-9][0-9]*(b|B|[kKmMgG](iB|B)?)?");
  if (text == "off" || std::regex_match(text, size)) return "";
  return fmt::format("'{}' is not a size such as 1GiB, or off", text);
}

/// Whether there is room for a log's first chunks.
bool has_room(const std::string& folder) {
  constexpr uint64_t kLeastBytes = 64 << 10;
  struct statvfs disk {};
  return statvfs(folder.c_str(), &disk) != 0 || disk.f_bavail * disk.f_frsize >= kLeastBytes;
}

/// Says why no log can be written there. The library would say so, too.
bool can_be_written(const std::string& pattern, bool quiet) {
  const std::string folder = fs::path(pattern).parent_path().string();
  if (folder.find('%') != std::string::npos) return true;  // not known yet
  const int error = access(folder.c_str(), W_OK | X_OK) != 0 ? errno
                    : has_room(folder)                       ? 0
                                                             : ENOSPC;
  if (error != 0 && !quiet) {
    say("cannot write a log into {}: {}. Nothing will be recorded; choose another place with -o",
        collector::escape(folder), strerror(error));
  }
  return error == 0;
}

/// Before the program starts: what was recorded earlier under this name is not to be taken for this
/// run's, if this one records nothing.
void prepare_place(const RunOptions& options, const std::string& pattern) {
  if (pattern.find('%') != std::string::npos) return;
  if (remove_old_log(pattern) == OldLog::kInUse && !options.quiet) {
    say("{} is the log of a process that still runs; this run's gets another name",
        collector::escape(pattern));
  }
}

int run(const RunOptions& options) {
  if (options.out == "-")
    throw collector::UsageError("-o: a log is a file; standard output is the program's own");
  // Whoever reads what is said may leave first; the program gets what we were given.
  const auto inherited = signal(SIGPIPE, SIG_IGN);
  const fs::path library = preload_library();
  if (library.empty()) {
    say("libgpupeak.so is not beside this command (../lib/gpupeak or ../preload)");
    return kOwnFailure;
  }
  if (!options.pool_rules.empty() && collector::read_rule_set(options.pool_rules).pools.empty())
    throw collector::UsageError(fmt::format("{} has no [[pool]]: docs/rules.md has one",
                                            collector::escape(options.pool_rules)));
  const std::string pattern = absolute_pattern(options);
  const std::string children = children_pattern(pattern);
  const fs::path preload = preloadable(library);
  int failure[2];
  if (pipe2(failure, O_CLOEXEC) != 0) {
    say("cannot make a pipe: {}", strerror(errno));
    return kOwnFailure;
  }
  const bool is_writable = can_be_written(pattern, options.quiet);
  prepare_place(options, pattern);
  if (is_writable && !options.quiet)
    say("recording to {}   (-q to silence)", collector::escape(pattern));
  std::optional<OutputPhases> output;
  if (!options.phases_on_output.empty()) output.emplace(options.phases_on_output);
  const uint64_t began = now_ns(CLOCK_REALTIME);
  const pid_t launcher = getpid();
  const pid_t child = fork();
  if (child < 0) {
    say("cannot fork: {}", strerror(errno));
    return kOwnFailure;
  }
  if (child == 0) {
    signal(SIGPIPE, inherited);
    end_with_launcher(launcher);
    if (output) output->redirect();
    exec_program(options, preload, pattern, children, failure[1]);
  }
  g_child = child;
  forward_signals();
  close(failure[1]);
  int error = 0;
  const bool failed = read(failure[0], &error, sizeof error) == sizeof error;
  close(failure[0]);
  if (output) output->pump(child);
  rusage usage{};
  Ended end;
  const int status = wait_for(child, usage, end);
  const uint64_t largest_rss = static_cast<uint64_t>(usage.ru_maxrss) * 1024;  // children's, too
  const uint64_t ended = now_ns(CLOCK_MONOTONIC);
  g_child = 0;
  if (failed) {
    say("cannot run {}: {}", collector::escape(options.command[0]), strerror(error));
    return error == ENOENT ? kNotFound : kCannotExec;
  }
  std::vector<RunLog> logs = find_logs({pattern, children}, began, child);
  drop_short_images(logs);
  join_programs(logs, pattern);
  for (const RunLog& log : logs) {
    if (log.of_child) note_exit(log.path, {status, ended, end.had_children ? 0 : largest_rss});
    cut_hole(log.path);
  }
  std::string said;
  if (!options.quiet) {
    if (!logs.empty()) {
      said =
          print_summary(logs, fs::path(children).parent_path().string(), options.summary_within_s);
    } else if (is_writable) {
      say_why_there_is_no_log(options.command[0]);
    }
    if (!logs.empty() && end.had_children) tell_of_children(logs, largest_rss);
    if (!logs.empty() && WIFEXITED(status))
      tell_of_last_program(logs.front(), options.command[0], end.name);
  }
  if (compress_logs(logs, compression(options.compress), options.quiet, g_stop))
    complete_summary(logs.front().path, said, options.summary_within_s);
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

void add_run(CommandLine& line) {
  auto [verb, options] =
      line.add("run", "Run a program and report the peak memory of its run", run);
  verb.add_option("-o,--out", options.out, "Log file; %n program, %p process id, %r rank, %h host")
      ->type_name("FILE");
  verb.add_flag("-q,--quiet", options.quiet, "Say nothing; the log is written all the same");
  verb.add_option("--host", options.host, "What to record of host memory")
      ->check(one_of({"full", "sampled", "counters", "off"}));
  verb.add_option("--log-max", options.log_max,
                  "Once the log has this size (1GiB), go on with a sample of the heap; off: never")
      ->type_name("SIZE")
      ->check(log_size);
  verb.add_option("--summary-within", options.summary_within_s,
                  "What the summary at the end may take; else it is what was counted alone (1)")
      ->type_name("SECONDS")
      ->envname("GPUPEAK_SUMMARY_WITHIN")
      ->check(a_time());
  verb.add_option("--compress", options.compress,
                  "Compress logs in their place in the end: those of 64 MiB and more, all, none")
      ->check(one_of({"auto", "always", "never"}))
      ->capture_default_str();
  verb.add_option("--children", options.children, "Which child processes record too")
      ->check(one_of({"cuda", "all", "none"}));
  verb.add_flag(
      "--audit", options.audit,
      "Also record libraries opened with RTLD_DEEPBIND or dlmopen, by the loader's auditing");
  verb.add_option("--python", options.python, "Python frames in the call sites of device memory")
      ->check(one_of({"auto", "off"}));
  verb.add_option("--phase-on-output", options.phases_on_output,
                  "A line of the program's output with this text begins a phase (may be repeated)")
      ->type_name("[NAME=]TEXT")
      ->allow_extra_args(false);
  verb.add_option("--pool-rules", options.pool_rules,
                  "Look into the allocators that the [[pool]] parts of this rule file describe")
      ->type_name("FILE")
      ->check(CLI::ExistingFile);
  verb.add_flag("--ort-nodes", options.ort_nodes,
                "Have ONNX Runtime write its profile of each session, and make phases of its nodes "
                "(costs time and host memory of its own: docs/phases.md)");
  verb.add_option("command", options.command, "The program and its arguments")
      ->required()
      ->type_name("-- PROGRAM ...");
  verb.positionals_at_end();
}

}  // namespace gpupeak::tools
