#include "several_logs.h"

#include <algorithm>

#include "collector/analyze/kept_summary.h"
#include "collector/text/error.h"
#include "strict.h"
#include "terminal.h"

namespace gpupeak::tools {

std::vector<collector::Summary> analyze_all(const std::vector<std::string>& logs,
                                            const collector::Options& options) {
  std::vector<collector::Summary> summaries;
  ProgressBar bar;
  for (const std::string& log : logs) {
    collector::Options of_log = options;
    of_log.process_ends = &log == &logs.back();
    summaries.push_back(collector::kept_or_analyzed(log, of_log, bar.callback()));
  }
  return summaries;
}

bool are_whole(const std::vector<collector::Summary>& summaries) {
  return std::all_of(summaries.begin(), summaries.end(),
                     [](const auto& summary) { return is_whole(summary.quality); });
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
