// Which logs the names given to a verb mean, and what the verbs that show them have in common. A
// log of `run` means the whole run, a folder all runs in it; with --process one process of each
// run.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/run/run_logs.h"
#include "collector/summary/summary.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {

/// Whether the word is the id of a process, and not the name of a log.
bool is_pid(const std::string& word);
/// The log of a running process, named by its id, or by the log itself. Throws UsageError if there
/// is no such process, or if it writes no log.
std::string log_of_target(const std::string& pid_or_log);
/// The same for a log that is to be written: the process must be this user's and in this PID
/// namespace.
std::string log_of_own_target(const std::string& pid_or_log);
/// The log that an argument means: a file, or else the id of a process. If it has ended: its last
/// log below the current folder.
std::string log_meant_by(const std::string& log);

void add_process(CLI::App& verb, std::string& process);

/// Whether none of the names is a folder, or all are.
bool are_files(const std::vector<std::string>& names);
bool are_folders(const std::vector<std::string>& names);

/// The runs that the names mean, in order. Throws UsageError and LogError.
std::vector<collector::RunLogs> runs_of(const std::vector<std::string>& names,
                                        const std::string& process);

/// For verbs that show one process of a run: the chosen process of each run. If none was chosen,
/// the one that held the most; that is said on standard error.
std::vector<std::string> process_logs(const std::vector<std::string>& names,
                                      const std::string& process);
std::string process_log(const std::string& name, const std::string& process);

/// For verbs that take all logs of a run. No log is there twice.
std::vector<std::string> all_logs(const std::vector<std::string>& names);

// What the verbs that show several logs in turn have in common.

/// Each run's summary, with a progress bar. For verbs that then show them and end: the memory of
/// the last analysis is not given back.
std::vector<collector::Summary> analyze_all(const std::vector<collector::RunLogs>& runs,
                                            const collector::Options& options,
                                            collector::RunDepth depth);

// What --strict asks of a run: one rule for all verbs.

/// Whether every figure is exact and the run was recorded to its end. If it was killed, nobody
/// knows how much memory it would have taken.
bool is_whole(const collector::Quality& quality);
/// The same for all processes of a run. Also, no process still runs, none went on with a program
/// that was not recorded, and none that used a GPU is missing.
bool is_whole(const collector::Summary& summary);
/// Whether all are; `part`: what is asked of each.
template <class Range, class Part = std::identity>
bool are_whole(const Range& range, Part part = {}) {
  return std::ranges::all_of(
      range, [](const auto& one) { return is_whole(one); }, part);
}
int strict_code(bool strict, bool whole);

/// Throws UsageError if `csv`, and there are several logs: one table would mix them.
void require_one_log_for_csv(bool csv, const std::vector<std::string>& logs);

/// Writes what a verb shows of `count` logs, of each by write(out, style, index): text with an
/// empty line between two logs, JSON of several logs as an array.
void write_in_turn(
    const OutputOptions& options, size_t count,
    const std::function<void(std::ostream&, const collector::ViewStyle&, size_t)>& write);

}  // namespace gpupeak::tools
