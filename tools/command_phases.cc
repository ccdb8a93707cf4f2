#include <unistd.h>

#include "collector/analyze/analyze.h"
#include "collector/write/write_phases.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "rule_choice.h"
#include "terminal.h"

namespace gpupeak::tools {

int phases(const ReportOptions& options) {
  collector::Options analysis;
  analysis.top = 1;
  analysis.stacks = false;
  analysis.rules = rule_choice(options.rules);
  collector::Summary summary;
  {
    ProgressBar bar;
    summary = collector::analyze(options.logs.front(), analysis, bar.callback());
  }
  const int fd = options.out.empty() ? STDOUT_FILENO : -1;
  write_output(options.out, [&](std::ostream& out) {
    if (options.format == "csv") {
      collector::write_phases_csv(summary, out);
    } else {
      collector::write_phases(summary, out, style_for(fd, options.color));
    }
  });
  return options.strict && !summary.quality.exact ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
