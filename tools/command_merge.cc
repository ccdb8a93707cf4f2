#include <unistd.h>

#include <algorithm>

#include "collector/write/write_merge.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "terminal.h"

namespace gpupeak::tools {

int merge(const MergeOptions& options) {
  ProgressBar bar;
  const collector::Merged merged = collector::merge_processes(options.logs, bar.callback());
  bar.clear();
  write_output(options.out, [&](std::ostream& out) {
    if (options.json) {
      collector::write_merge_json(merged, out);
    } else {
      collector::write_merge(merged, out,
                             style_for(options.out.empty() ? STDOUT_FILENO : -1, options.color));
    }
  });
  const bool exact = std::all_of(merged.processes.begin(), merged.processes.end(),
                                 [](const auto& process) { return process.quality.exact; });
  return options.strict && !exact ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
