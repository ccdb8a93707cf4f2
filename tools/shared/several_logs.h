// What the verbs that show several logs in turn have in common.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/run/analyze_run.h"
#include "collector/summary/summary.h"

namespace gpupeak::tools {

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
