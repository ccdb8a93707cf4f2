#include "collector/analyze/analyze.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/gates/strict.h"
#include "tools/shared/command_line.h"
#include "tools/shared/exit_codes.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
#include "tools/shared/several_logs.h"
#include "tools/shared/terminal.h"

namespace gpupeak::tools {
namespace {

struct PhasesOptions {
  std::vector<std::string> logs;
  std::string process;  ///< of a run; empty: the one that held the most
  std::string out;      ///< file; empty: standard output
  TextOptions text;
  bool csv = false;
  bool json = false;
  bool strict = false;
  collector::Reading reading;
};

void write_one(const collector::Summary& summary, const PhasesOptions& options, std::ostream& out,
               const collector::TextStyle& style) {
  if (options.csv) {
    collector::write_phases_csv(summary, out);
  } else if (options.json) {
    collector::write_phases_json(summary, out);
  } else {
    if (options.logs.size() > 1) out << bold(summary.log_path, style) << '\n';
    collector::write_phases(summary, out, style);
  }
}

int phases(const PhasesOptions& options) {
  require_one_log_for_csv(options.csv, options.logs);
  require_output(options.out, options.logs);
  collector::Options analysis;
  analysis.top = 1;
  analysis.stacks = false;
  analysis.reading = options.reading;
  const std::vector<collector::Summary> summaries =
      analyze_all(runs_of(process_logs(options.logs, options.process), ""), analysis,
                  collector::RunDepth::kGpus);
  const collector::TextStyle style = style_for(output_descriptor(options.out), options.text);
  write_output(options.out, [&](std::ostream& out) {
    write_in_turn(out, summaries.size(), options.json,
                  [&](size_t i) { write_one(summaries[i], options, out, style); });
  });
  return strict_code(options.strict, are_whole(summaries));
}

}  // namespace

void add_phases(CommandLine& line) {
  auto [verb, options] =
      line.add("phases", "The phases and their repetitions, host beside device", phases);
  add_logs(verb, options.logs);
  add_process(verb, options.process);
  verb.add_flag("--csv", options.csv, "As CSV, in bytes");
  verb.add_flag("--json", options.json, "As JSON")->excludes("--csv");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_text_options(verb, options.text);
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
