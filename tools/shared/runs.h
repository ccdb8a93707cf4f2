// Which logs the names given to a verb mean: a log of `run` means the whole run, a folder all runs
// in it; with --process one process of each run.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/run/analyze_run.h"
#include "collector/run/run_logs.h"
#include "collector/summary/summary.h"

namespace gpupeak::tools {

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
bool are_whole(const std::vector<collector::Summary>& summaries);

/// Throws UsageError if `csv`, and there are several logs: one table would mix them.
void require_one_log_for_csv(bool csv, const std::vector<std::string>& logs);

/// Writes `count` logs, each by one(index): text with an empty line between two logs, JSON of
/// several logs as an array.
void write_in_turn(std::ostream& out, size_t count, bool json,
                   const std::function<void(size_t)>& one);

}  // namespace gpupeak::tools
