#include <unistd.h>

#include <optional>

#include "collector/analyze/load_summary.h"
#include "collector/text/error.h"
#include "collector/write/write_gates.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "rule_choice.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

std::vector<collector::Gate> parse_gates(const CheckOptions& options) {
  if (options.max.empty() && options.max_increase.empty()) {
    throw collector::UsageError("nothing to check: give --max or --max-increase");
  }
  if (options.max_increase.empty() != options.baseline.empty()) {
    throw collector::UsageError("--baseline and --max-increase go together");
  }
  std::vector<collector::Gate> gates;
  for (const std::string& text : options.max) gates.push_back(collector::parse_max(text));
  for (const std::string& text : options.max_increase)
    gates.push_back(collector::parse_max_increase(text));
  return gates;
}

}  // namespace

int check(const CheckOptions& options) {
  const std::vector<collector::Gate> gates = parse_gates(options);
  collector::Options analysis;
  analysis.top = collector::kAllRows;
  analysis.stacks = false;
  analysis.rules = rule_choice(options.rules);
  ProgressBar bar;
  const collector::Summary summary = collector::load_summary(options.log, analysis, bar.callback());
  std::optional<collector::Summary> baseline;
  if (!options.baseline.empty()) {
    baseline = collector::load_summary(options.baseline, analysis, bar.callback());
  }
  bar.clear();
  const std::vector<collector::GateResult> results =
      collector::check_gates(gates, summary, baseline ? &*baseline : nullptr);
  write_output("", [&](std::ostream& out) {
    collector::write_gates(summary, results, out, style_for(STDOUT_FILENO, options.color));
  });
  if (!options.junit.empty()) {
    write_output(options.junit,
                 [&](std::ostream& out) { collector::write_junit(summary, results, out); });
  }
  if (!options.markdown.empty()) {
    append_output(options.markdown,
                  [&](std::ostream& out) { collector::write_markdown(summary, results, out); });
  }
  if (!collector::all_passed(results)) return kGateFailed;
  const bool exact = summary.quality.exact && (!baseline || baseline->quality.exact);
  return options.strict && !exact ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
