#include <unistd.h>

#include <algorithm>

#include "collector/views/compare.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "page.h"
#include "rule_choice.h"
#include "terminal.h"

namespace gpupeak::tools {

int compare(const CompareOptions& options) {
  if (!options.html.empty()) {
    const bool exact = write_page(options.logs, rule_choice(options.rules), options.html);
    return options.strict && !exact ? kIncomplete : kOk;
  }
  collector::Profiles runs;
  for (const std::string& log : options.logs) {
    ProgressBar bar;
    runs.push_back(std::make_unique<collector::Profile>(log, bar.callback(), nullptr,
                                                        rule_choice(options.rules)));
  }
  write_output("", [&](std::ostream& out) {
    if (options.json) {
      collector::write_compare_json(runs, options.scope, options.top, out);
    } else {
      collector::write_compare(runs, options.scope, options.top, out,
                               style_for(STDOUT_FILENO, options.color));
    }
  });
  const bool exact =
      std::all_of(runs.begin(), runs.end(), [](const auto& run) { return run->quality().exact; });
  return options.strict && !exact ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
