#include "tools/fit/sweep_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <stdexcept>

#include "collector/files/fresh_file.h"
#include "collector/files/regular_file.h"
#include "collector/run/analyze_run.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/text/text_format.h"
#include "tools/run/memory.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {
namespace {

namespace fs = std::filesystem;

volatile sig_atomic_t g_child = 0;
volatile sig_atomic_t g_stopped = 0;

/// Passes a signal on to the program. A signal of the terminal reaches the program by itself, since
/// it is in our process group.
void stop(int signal, siginfo_t* info, void*) {
  g_stopped = 1;
  if (g_child > 0 && info->si_code != SI_KERNEL) kill(static_cast<pid_t>(g_child), signal);
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

[[noreturn]] void exec_run(const std::vector<std::string>& words, const std::string& output) {
  signal(SIGPIPE, SIG_DFL);
  restore_child_signal();
  unlink(output.c_str());
  const int out = open(output.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (out < 0 || in < 0 || dup2(in, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0)
    _exit(kOwnFailure);
  const std::vector<char*> arguments = exec_arguments(words);
  execv(arguments[0], arguments.data());
  _exit(kOwnFailure);
}

/// Runs `gpupeak run`. Returns its exit code, which is the program's.
int run_words(const std::vector<std::string>& words, const std::string& output) {
  // Signals wait, since between the fork and the next line they would not reach the child.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t child = fork();
  if (child == 0) {
    sigprocmask(SIG_SETMASK, &before, nullptr);
    exec_run(words, output);
  }
  g_child = child;
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child < 0) throw std::runtime_error(fmt::format("cannot fork: {}", strerror(errno)));
  const std::optional<int> status = wait_for_child(child);
  g_child = 0;
  return status ? exit_code(*status) : kOwnFailure;
}

}  // namespace

void stop_on_signals() {
  struct sigaction action {};
  action.sa_sigaction = stop;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) sigaction(signal, &action, nullptr);
}

bool was_stopped() {
  return g_stopped != 0;
}

SweepFolder::SweepFolder(std::string folder,
                         const std::vector<collector::SweepParameter>& parameters, std::string host)
    : folder_(std::move(folder)), host_(std::move(host)), parameters_(parameters) {
  if (folder_.find('%') != std::string::npos) {
    throw collector::UsageError(
        "--out: a folder without % in its name, which stands for parts of "
        "logs' names");
  }
  std::error_code error;
  fs::create_directories(folder_, error);
  if (!fs::is_directory(folder_)) {
    throw collector::UsageError(fmt::format("--out {}: {}", collector::escape(folder_),
                                            error ? error.message() : "is no folder"));
  }
  // Its content is trusted, and removed before a run.
  if (!collector::is_own_folder(fs::canonical(folder_))) {
    throw collector::UsageError(
        fmt::format("--out {}: it is another user's folder, or all may write there",
                    collector::escape(folder_)));
  }
}

std::string SweepFolder::place(const collector::SweepValues& values) const {
  std::string name = collector::values_text(parameters_, values);
  for (char& c : name) {
    if (c == '/' || c == '%' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  std::erase(name, ' ');
  return (fs::path(folder_) / name).string();
}

std::string SweepFolder::output(const collector::SweepValues& values) const {
  return place(values) + "/output.txt";
}

std::vector<std::string> SweepFolder::logs(const collector::SweepValues& values) const {
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

std::optional<EndedRun> SweepFolder::run(const collector::SweepValues& values,
                                         const std::vector<std::string>& command, bool again) {
  const std::string folder = place(values);
  const auto held = collector::inner_folder(folder_, fs::path(folder).filename().string());
  std::string words = "--host " + host_ + "\n";
  for (const std::string& word : command) words += word + '\0';
  const std::optional<std::string> before = text_of(folder + "/command");
  if (before && *before != words && !again) {
    throw collector::UsageError(fmt::format(
        "{} holds a run of another command: name another folder with --out, or run all anew with "
        "--again",
        collector::escape(folder)));
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

namespace {

using collector::HostNeed;
using collector::WholeRun;

/// Adds a process's peak. The processes had at least the largest of these peaks at one moment, and
/// at most their sum: shared pages count once for each process.
void add(HostNeed& need, const std::optional<uint64_t>& resident, const std::string& name) {
  if (!resident) {
    need.no_most = fmt::format("what was resident of {} is not known", name);
    return;
  }
  need.least = std::max(need.least, *resident);
  *need.most += *resident;
}

}  // namespace

HostNeed host_need_of(const std::vector<std::string>& logs, const collector::Reading& reading) {
  collector::Options options;
  options.reading = reading;
  options.stacks = false;
  const collector::Summary summary = collector::analyze_run(collector::logs_of_run(logs.front()),
                                                            options, collector::RunDepth::kGpus);
  HostNeed need;
  need.most = 0;
  for (const collector::OutOfMemory& oom : summary.oom)
    need.was_refused = need.was_refused || (oom.on_host && !oom.only_addresses);
  if (const auto& run = summary.whole_run) {
    for (const WholeRun::Process& process : run->processes)
      add(need, process.rss_peak_bytes, process.program);
    for (const WholeRun::NotRecorded& process : run->not_recorded)
      add(need, process.rss_bytes, process.program);
    if (run->unseen_rss_bytes) add(need, run->unseen_rss_bytes, "a process that nobody saw");
    need.was_refused = need.was_refused || run->memory_kill.has_value();
  } else {
    add(need, collector::metric(summary.metrics, "host.rss.peak_bytes"), "the program");
  }
  if (!need.no_most.empty()) need.most.reset();
  return need;
}

collector::SweepCapacity host_capacity() {
  const uint64_t limit = MemoryKills().limit();
  const uint64_t machine =
      static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const bool is_limited = limit != 0 && limit < machine;
  const uint64_t bytes = is_limited ? limit : machine;
  const char* const what = is_limited ? "this control group" : "this machine";
  return {bytes, bytes, fmt::format("{} ({})", what, collector::size_text(bytes))};
}

}  // namespace gpupeak::tools
