#include <unistd.h>

#include <algorithm>

#include "collector/analyze/analyze.h"
#include "collector/text/error.h"
#include "collector/write/write_csv.h"
#include "collector/write/write_dump.h"
#include "collector/write/write_json.h"
#include "collector/write/write_short.h"
#include "collector/write/write_text.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "page.h"
#include "rule_choice.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

void write(const collector::Summary& summary, const ReportOptions& options, std::ostream& out,
           const collector::TextStyle& style) {
  if (options.format == "json")
    collector::write_json(summary, out);
  else if (options.format == "csv")
    collector::write_csv(summary, out);
  else if (options.format == "short")
    collector::write_short(summary, out, style);
  else
    collector::write_text(summary, out, style);
}

/// One summary as ever; several in turn, as JSON an array of them.
void write_all(const std::vector<collector::Summary>& summaries, const ReportOptions& options,
               std::ostream& out, const collector::TextStyle& style) {
  const bool array = options.format == "json" && summaries.size() > 1;
  const char* separator = array ? "[\n" : "";
  for (const collector::Summary& summary : summaries) {
    out << separator;
    write(summary, options, out, style);
    separator = array ? ",\n" : "\n";
  }
  if (array) out << "]\n";
}

}  // namespace

int report(const ReportOptions& options) {
  if (!options.html.empty()) {
    const bool exact = write_page(options.logs, rule_choice(options.rules), options.html);
    return options.strict && !exact ? kIncomplete : kOk;
  }
  collector::Options analysis;
  analysis.by = collector::parse_group_by(options.by);
  analysis.top = options.top;
  analysis.rules = rule_choice(options.rules);
  analysis.stacks = options.format == "json" || options.format == "csv";
  if (options.format == "csv" && options.logs.size() > 1) {
    throw collector::UsageError("--csv takes one log: its rows do not say which log they are of");
  }
  std::vector<collector::Summary> summaries;
  {
    ProgressBar bar;
    for (const std::string& log : options.logs) {
      summaries.push_back(collector::analyze(log, analysis, bar.callback()));
    }
  }
  const int fd = options.out.empty() ? STDOUT_FILENO : -1;
  write_output(options.out, [&](std::ostream& out) {
    write_all(summaries, options, out, style_for(fd, options.color));
  });
  const bool exact =
      std::all_of(summaries.begin(), summaries.end(),
                  [](const collector::Summary& summary) { return summary.quality.exact; });
  return options.strict && !exact ? kIncomplete : kOk;
}

int dump(const std::string& log) {
  // Where the events themselves go to the terminal a bar would be among them.
  ProgressBar bar;
  const collector::Progress progress =
      isatty(STDOUT_FILENO) != 0 ? collector::Progress{} : bar.callback();
  write_output("", [&](std::ostream& out) { collector::write_dump(log, out, progress); });
  return kOk;
}

}  // namespace gpupeak::tools
