#include <algorithm>

#include "collector/analyze/summary_parts.h"
#include "collector/run/run_logs.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

struct MetricsOptions {
  std::vector<std::string> logs;  ///< or JSON that `report --json` wrote
  std::string format = "text";    ///< one of metrics_formats()
  std::vector<std::string> names, labels;
  std::string benchmark;  ///< empty: the program's name
  std::string out;        ///< file; empty: standard output
  bool strict = false;
  collector::Reading reading;
};

int metrics(const MetricsOptions& options) {
  const collector::MetricsChoice choice{options.names, options.benchmark,
                                        labels_of(options.labels, options.reading.sanitizer)};
  require_output(options.out, options.logs);
  // The figures alone.
  collector::Options analysis{.reading = options.reading, .top = 0, .stacks = false};
  analysis.reading.search.files = false;
  if (!options.names.empty() && std::ranges::all_of(options.names, collector::is_device_metric))
    analysis.reading.heap = collector::HeapReading::kNone;
  std::vector<collector::Summary> runs;
  ProgressBar bar;
  for (const std::string& log : options.logs)
    runs.push_back(collector::load_run_figures(log, analysis, bar.callback()));
  bar.clear();
  write_output(options.out, [&](std::ostream& out) {
    collector::write_metrics(runs, options.format, choice, out);
  });
  return strict_code(options.strict, are_whole(runs));
}

}  // namespace

void add_metrics(CommandLine& line) {
  auto [verb, options] =
      line.add("metrics", "The figures alone, for scripts, CI services and dashboards", metrics);
  add_required(verb, "log", options.logs, "FILE ...", "Logs, or JSON that `report --json` wrote");
  add_choice(verb, "--format", options.format, collector::metrics_formats(),
             "Form of the output; docs/ci.md says who reads which");
  add_list(verb, "--metric", options.names, "NAME", "Print this metric alone; may be repeated");
  add_list(verb, "--label", options.labels, "NAME=VALUE", "Added to the figures; may be repeated");
  add_value(verb, "--benchmark", options.benchmark, "NAME", "A name instead of the program's");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
