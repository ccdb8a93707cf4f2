#include "tools/shared/runs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "tools/gates/strict.h"
#include "tools/shared/command_line.h"
#include "tools/shared/log_folder.h"
#include "tools/shared/output.h"

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

/// Reduces the run to one process, as if only the log of that process had been given.
void choose(collector::RunLogs& run, const std::string& process) {
  collector::RunLog chosen = collector::process_of_run(run, process);
  run = collector::RunLogs{chosen.path, {chosen}, std::nullopt, 0};
}

}  // namespace

void add_process(CLI::App& verb, std::string& process) {
  verb.add_option("--process", process,
                  "One process of a run: rank:1, a process id, or a program's name")
      ->type_name("rank:N|PID|NAME");
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

bool are_whole(const std::vector<collector::Summary>& summaries) {
  return std::ranges::all_of(summaries, [](const auto& summary) { return is_whole(summary); });
}

void require_one_log_for_csv(bool csv, const std::vector<std::string>& logs) {
  if (csv && logs.size() > 1)
    throw collector::UsageError("--csv takes one log: its rows do not say which log they are of");
}

void write_in_turn(std::ostream& out, size_t count, bool json,
                   const std::function<void(size_t)>& one) {
  const bool array = json && count > 1;
  if (array) out << "[\n";
  for (size_t i = 0; i < count; ++i) {
    if (i > 0) out << (array ? ",\n" : "\n");
    one(i);
  }
  if (array) out << "]\n";
}

}  // namespace gpupeak::tools
