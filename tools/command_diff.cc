#include <unistd.h>

#include <algorithm>

#include "collector/analyze/load_summary.h"
#include "collector/text/error.h"
#include "collector/write/write_diff.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "rule_choice.h"
#include "terminal.h"

namespace gpupeak::tools {

int diff(const DiffOptions& options) {
  collector::Options analysis;
  analysis.by = collector::parse_group_by(options.by);
  analysis.top = collector::kAllRows;
  analysis.stacks = false;
  analysis.rules = rule_choice(options.rules);
  ProgressBar bar;
  const collector::Summary a = collector::load_summary(options.a, analysis, bar.callback());
  const collector::Summary b = collector::load_summary(options.b, analysis, bar.callback());
  bar.clear();
  write_output(options.out, [&](std::ostream& out) {
    if (options.json) {
      collector::write_diff_json(a, b, out);
    } else {
      collector::write_diff(a, b, options.top, out,
                            style_for(options.out.empty() ? STDOUT_FILENO : -1, options.color));
    }
  });
  return options.strict && !(a.quality.exact && b.quality.exact) ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
