#include "tools/shared/runs.h"

#include <sys/stat.h>
#include <unistd.h>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "tools/shared/command_line.h"
#include "tools/shared/process_stat.h"

namespace gpupeak::tools {
namespace {

void require_own_process(const std::string& pid) {
  struct stat process {};
  if (stat(("/proc/" + pid).c_str(), &process) != 0)
    throw collector::UsageError("there is no process " + pid);
  if (process.st_uid != geteuid())
    throw collector::UsageError("process " + pid + " is of user " + std::to_string(process.st_uid) +
                                ", you are user " + std::to_string(geteuid()) +
                                ": only a program of your own is told to record");
  if (!is_in_our_namespace(std::stoi(pid), "pid"))
    throw collector::UsageError(
        "process " + pid +
        " is in another container, or may not be looked at: run this command where it runs");
}

}  // namespace

std::string log_of_own_target(const std::string& pid_or_log) {
  if (collector::is_pid(pid_or_log)) require_own_process(pid_or_log);
  return collector::log_of_target(pid_or_log);
}

bool are_files(const std::vector<std::string>& names) {
  return std::ranges::none_of(names, collector::is_folder);
}

bool are_folders(const std::vector<std::string>& names) {
  return std::ranges::all_of(names, collector::is_folder);
}

std::vector<std::string> process_logs(const std::vector<std::string>& names,
                                      const std::string& process) {
  std::vector<std::string> logs;
  for (const collector::RunLogs& run : collector::runs_of(names, process)) {
    const collector::RunLog& lead = run.logs[run.lead()];
    if (run.logs.size() > 1) {
      say("{}: of {} processes pid {}, which held the most; --process chooses another",
          collector::escape(run.name), run.logs.size(), lead.head.header.pid);
    }
    logs.push_back(lead.path);
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
