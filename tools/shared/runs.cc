#include "tools/shared/runs.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>

#include "collector/log/log_appender.h"
#include "collector/summary/run_text.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "tools/shared/command_line.h"
#include "tools/shared/log_folder.h"
#include "tools/shared/output.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

std::vector<collector::RunLogs> runs_in(const std::string& folder) {
  std::vector<std::string> paths;
  for (const FolderLog& log : LogFolder(folder, SIZE_MAX).look().logs) paths.push_back(log.path);
  std::ranges::sort(paths);
  std::vector<collector::RunLogs> runs = collector::runs_among(folder, paths);
  if (runs.empty())
    throw collector::UsageError("there are no logs in " + collector::escape(folder));
  return runs;
}

bool is_folder(const std::string& name) {
  std::error_code error;
  return std::filesystem::is_directory(name, error);
}

void require_own_process(const std::string& pid) {
  struct stat process {};
  if (stat(("/proc/" + pid).c_str(), &process) != 0)
    throw collector::UsageError("there is no process " + pid);
  if (process.st_uid != geteuid()) {
    throw collector::UsageError("process " + pid + " is of user " + std::to_string(process.st_uid) +
                                ", you are user " + std::to_string(geteuid()) +
                                ": only a program of your own is told to record");
  }
  if (!is_in_our_namespace(std::stoi(pid), "pid")) {
    throw collector::UsageError("process " + pid +
                                " is in another container, or may not be looked at: run this "
                                "command where it runs");
  }
}

/// Reduces the run to one process, as if only the log of that process had been given.
void choose(collector::RunLogs& run, const std::string& process) {
  collector::RunLog chosen = collector::process_of_run(run, process);
  run = collector::RunLogs{chosen.path, {chosen}, std::nullopt, 0};
}

}  // namespace

bool is_pid(const std::string& word) {
  return !word.empty() && word.size() < 10 &&
         std::ranges::all_of(word, [](unsigned char c) { return std::isdigit(c) != 0; });
}

std::string log_of_own_target(const std::string& pid_or_log) {
  if (is_pid(pid_or_log)) require_own_process(pid_or_log);
  return log_of_target(pid_or_log);
}

std::string log_meant_by(const std::string& log) {
  if (access(log.c_str(), F_OK) == 0 || !is_pid(log)) return log;
  const auto pid = static_cast<uint32_t>(std::stoul(log));
  if (access(("/proc/" + log).c_str(), F_OK) == 0) {
    const std::string written = collector::log_of_process(std::stoi(log));
    if (!written.empty()) return written;
  }
  FolderLog newest;
  for (FolderLog& ended : LogFolder(".", SIZE_MAX).look().logs) {
    if (ended.head.header.pid == pid &&
        ended.head.header.start_realtime_ns >= newest.head.header.start_realtime_ns)
      newest = std::move(ended);
  }
  return newest.path.empty() ? log_of_target(log) : newest.path;
}

std::string log_of_target(const std::string& pid_or_log) {
  if (!is_pid(pid_or_log)) return pid_or_log;
  const std::string log = collector::log_of_process(std::stoi(pid_or_log));
  if (log.empty()) {
    throw collector::UsageError("process " + pid_or_log +
                                " writes no log; start it with `gpupeak run`, or name the log of "
                                "the process that does");
  }
  return log;
}

void add_process(CLI::App& verb, std::string& process) {
  add_value(verb, "--process", process, "rank:N|PID|NAME",
            "One process of a run: rank:1, a process id, or a program's name");
}

bool are_files(const std::vector<std::string>& names) {
  return std::ranges::none_of(names, is_folder);
}

bool are_folders(const std::vector<std::string>& names) {
  return std::ranges::all_of(names, is_folder);
}

std::vector<collector::RunLogs> runs_of(const std::vector<std::string>& names,
                                        const std::string& process) {
  std::vector<collector::RunLogs> runs;
  for (const std::string& name : names) {
    if (is_folder(name)) {
      for (collector::RunLogs& run : runs_in(name)) runs.push_back(std::move(run));
    } else {
      runs.push_back(collector::logs_of_run(name));
    }
  }
  if (process.empty()) return runs;
  for (collector::RunLogs& run : runs) choose(run, process);
  return runs;
}

std::vector<std::string> process_logs(const std::vector<std::string>& names,
                                      const std::string& process) {
  std::vector<std::string> logs;
  for (const collector::RunLogs& run : runs_of(names, process)) {
    const collector::RunLog& lead = run.logs[run.lead()];
    if (run.logs.size() > 1) {
      say("{}: of {} processes pid {}, which held the most; --process chooses another",
          collector::escape(run.name), run.logs.size(), lead.head.header.pid);
    }
    logs.push_back(lead.path);
  }
  return logs;
}

std::string process_log(const std::string& name, const std::string& process) {
  return process_logs({name}, process).front();
}

std::vector<std::string> all_logs(const std::vector<std::string>& names) {
  std::vector<std::string> logs;
  std::set<uint64_t> given, added;
  for (const std::string& name : names) {
    if (is_folder(name)) continue;
    given.insert(collector::logs_of_run(name).logs.front().head.header.cookie);
  }
  for (const collector::RunLogs& run : runs_of(names, "")) {
    for (const collector::RunLog& log : run.logs) {
      const uint64_t id = log.head.header.cookie;
      const bool is_first = &log == &run.logs.front();
      if (!is_first && (given.contains(id) || !added.insert(id).second)) continue;
      logs.push_back(log.path);
    }
  }
  return logs;
}

std::vector<collector::Summary> analyze_all(const std::vector<collector::RunLogs>& runs,
                                            const collector::Options& options,
                                            collector::RunDepth depth) {
  std::vector<collector::Summary> summaries;
  ProgressBar bar;
  for (const collector::RunLogs& run : runs) {
    collector::Options of_run = options;
    of_run.process_ends = &run == &runs.back();
    summaries.push_back(collector::analyze_run(run, of_run, depth, bar.callback()));
  }
  return summaries;
}

bool is_whole(const collector::Quality& quality) {
  return quality.exact && quality.log_complete;
}

bool is_whole(const collector::Summary& summary) {
  const auto& run = summary.whole_run;
  if (!is_whole(summary.quality) || !run) return is_whole(summary.quality);
  const auto is_whole_too = [](const auto& process) { return process.exact && process.complete; };
  return std::ranges::all_of(run->processes, is_whole_too) && run->still_running.empty() &&
         std::ranges::none_of(run->not_recorded, &collector::WholeRun::NotRecorded::went_on) &&
         !collector::lacks_device_memory(*run);
}

int strict_code(bool strict, bool whole) {
  return strict && !whole ? kIncomplete : kOk;
}

void require_one_log_for_csv(bool csv, const std::vector<std::string>& logs) {
  if (csv && logs.size() > 1)
    throw collector::UsageError("--csv takes one log: its rows do not say which log they are of");
}

void write_in_turn(
    const OutputOptions& options, size_t count,
    const std::function<void(std::ostream&, const collector::ViewStyle&, size_t)>& write) {
  const collector::ViewStyle style = view_style(options);
  const bool array = options.json && count > 1;
  write_output(options.out, [&](std::ostream& out) {
    if (array) out << "[\n";
    for (size_t i = 0; i < count; ++i) {
      if (i > 0) out << (array ? ",\n" : "\n");
      write(out, style, i);
    }
    if (array) out << "]\n";
  });
}

}  // namespace gpupeak::tools
