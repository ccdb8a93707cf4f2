#include <unistd.h>

#include "collector/analyze.h"
#include "collector/error.h"
#include "collector/write_csv.h"
#include "collector/write_dump.h"
#include "collector/write_json.h"
#include "collector/write_short.h"
#include "collector/write_text.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
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

}  // namespace

int report(const ReportOptions& options) {
  collector::Options analysis;
  analysis.by = collector::parse_group_by(options.by);
  analysis.top = options.top;
  analysis.stacks = options.format == "json" || options.format == "csv";
  collector::Summary summary;
  {
    ProgressBar bar;
    summary = collector::analyze(options.log, analysis, bar.callback());
  }
  const int fd = options.out.empty() ? STDOUT_FILENO : -1;
  write_output(options.out, [&](std::ostream& out) {
    write(summary, options, out, style_for(fd, options.color));
  });
  return options.strict && !summary.quality.exact ? kIncomplete : kOk;
}

int dump(const std::string& log) {
  write_output("", [&](std::ostream& out) { collector::write_dump(log, out); });
  return kOk;
}

}  // namespace gpupeak::tools
