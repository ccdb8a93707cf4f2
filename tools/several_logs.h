// What the verbs share that show several logs in turn.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/run/analyze_run.h"
#include "collector/summary/summary.h"

namespace gpupeak::tools {

/// Each run's summary, with a progress bar. For verbs that end when they have shown them.
std::vector<collector::Summary> analyze_all(const std::vector<collector::RunLogs>& runs,
                                            const collector::Options& options,
                                            collector::RunDepth depth);
bool are_whole(const std::vector<collector::Summary>& summaries);

/// Throws UsageError for several logs in one table.
void require_one_log_for_csv(bool csv, const std::vector<std::string>& logs);

/// `count` logs, written by `one`: text with an empty line between two, JSON of several as an
/// array.
void write_in_turn(std::ostream& out, size_t count, bool json,
                   const std::function<void(size_t)>& one);

}  // namespace gpupeak::tools
