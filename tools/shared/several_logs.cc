#include "tools/shared/several_logs.h"

#include <algorithm>

#include "collector/text/error.h"
#include "tools/gates/strict.h"
#include "tools/shared/terminal.h"

namespace gpupeak::tools {

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
  return std::all_of(summaries.begin(), summaries.end(),
                     [](const auto& summary) { return is_whole(summary); });
}

void require_one_log_for_csv(bool csv, const std::vector<std::string>& logs) {
  if (csv && logs.size() > 1) {
    throw collector::UsageError("--csv takes one log: its rows do not say which log they are of");
  }
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
