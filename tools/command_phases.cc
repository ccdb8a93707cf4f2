#include <unistd.h>

#include "collector/analyze/analyze.h"
#include "collector/write/write_phases.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "strict.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

struct PhasesOptions {
  std::string log;
  std::string out;  ///< file; empty: standard output
  std::string color = "auto";
  bool csv = false;
  bool strict = false;
  collector::Reading reading;
};

int phases(const PhasesOptions& options) {
  require_output(options.out, {options.log});
  collector::Options analysis;
  analysis.top = 1;
  analysis.stacks = false;
  analysis.reading = options.reading;
  collector::Summary summary;
  {
    ProgressBar bar;
    summary = collector::analyze(options.log, analysis, bar.callback());
  }
  const int fd = output_descriptor(options.out);
  write_output(options.out, [&](std::ostream& out) {
    if (options.csv) {
      collector::write_phases_csv(summary, out);
    } else {
      collector::write_phases(summary, out, style_for(fd, options.color));
    }
  });
  return strict_code(options.strict, is_whole(summary.quality));
}

}  // namespace

void add_phases(CommandLine& line) {
  auto [verb, options] =
      line.add("phases", "The phases and their repetitions, host beside device", phases);
  add_log(verb, options.log);
  verb.add_flag("--csv", options.csv, "As CSV, in bytes");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_color(verb, options.color);
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
