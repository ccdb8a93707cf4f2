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
#include "collector/summary/run_text.h"
#include "tools/shared/output.h"

namespace gpupeak::tools {

/// collector::log_of_target() for a log that is to be written: the process must be this user's and
/// in this PID namespace.
std::string log_of_own_target(const std::string& pid_or_log);

inline void add_process(CLI::App& verb, std::string& process) {
  add_value(verb, "--process", process, "rank:N|PID|NAME",
            "One process of a run: rank:1, a process id, or a program's name");
}

/// Whether none of the names is a folder, or all are.
bool are_files(const std::vector<std::string>& names);
bool are_folders(const std::vector<std::string>& names);

/// For verbs that show one process of a run: the chosen process of each run. If none was chosen,
/// the one that held the most; that is said on standard error.
std::vector<std::string> process_logs(const std::vector<std::string>& names,
                                      const std::string& process);
inline std::string process_log(const std::string& name, const std::string& process) {
  return process_logs({name}, process).front();
}

// What the verbs that show several logs in turn have in common.

/// Each run's summary, with a progress bar. For verbs that then show them and end: the memory of
/// the last analysis is not given back.
std::vector<collector::Summary> analyze_all(const std::vector<collector::RunLogs>& runs,
                                            const collector::Options& options,
                                            collector::RunDepth depth);

// What --strict asks of a run: one rule for all verbs.

/// Whether all are whole, as run_text.h says; `part`: what is asked of each.
template <class Range, class Part = std::identity>
bool are_whole(const Range& range, Part part = {}) {
  return std::ranges::all_of(
      range, [](const auto& one) { return is_whole(one); }, part);
}
inline int strict_code(bool strict, bool whole) {
  return strict && !whole ? kIncomplete : kOk;
}

/// Throws UsageError if `csv`, and there are several logs: one table would mix them.
inline void require_one_log_for_csv(bool csv, const std::vector<std::string>& logs) {
  if (csv && logs.size() > 1)
    throw collector::UsageError("--csv takes one log: its rows do not say which log they are of");
}

/// Writes what a verb shows of `count` logs, of each by write(out, style, index): text with an
/// empty line between two logs, JSON of several logs as an array.
void write_in_turn(
    const OutputOptions& options, size_t count,
    const std::function<void(std::ostream&, const collector::ViewStyle&, size_t)>& write);

}  // namespace gpupeak::tools
