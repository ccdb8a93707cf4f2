// What the names given to a verb stand for: a log of `run` for the run, a folder for those in it,
// and with --process one process of it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "collector/run/run_logs.h"

namespace gpupeak::tools {

void add_process(CLI::App& verb, std::string& process);

/// None of them is a folder.
bool are_files(const std::vector<std::string>& names);

/// Throws UsageError and LogError.
std::vector<collector::RunLogs> runs_of(const std::vector<std::string>& names,
                                        const std::string& process);

/// For verbs that show one process of a run: of each run the one that was chosen, else the one that
/// held the most, which is then said on standard error.
std::vector<std::string> process_logs(const std::vector<std::string>& names,
                                      const std::string& process);
std::string process_log(const std::string& name, const std::string& process);

/// For a page: of each run the lead and the other processes that used a GPU.
std::vector<std::string> page_logs(const std::vector<std::string>& names,
                                   const std::string& process);

/// For verbs that take all of a run's: logs that are there already are not added again.
std::vector<std::string> all_logs(const std::vector<std::string>& names);

}  // namespace gpupeak::tools
