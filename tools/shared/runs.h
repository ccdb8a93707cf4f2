// Which logs the names given to a verb mean: a log of `run` means the whole run, a folder all runs
// in it; with --process one process of each run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "collector/run/run_logs.h"

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

}  // namespace gpupeak::tools
