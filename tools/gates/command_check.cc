#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>

#include "collector/analyze/summary_parts.h"
#include "collector/files/fresh_file.h"
#include "collector/run/run_logs.h"
#include "collector/summary/diff.h"
#include "collector/text/error.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

struct CheckOptions : OutputOptions {
  std::string log;       ///< a log, or JSON that `report --json` wrote
  std::string baseline;  ///< a log or JSON; empty: none
  std::vector<std::string> max, max_increase;
  std::string max_growth;       ///< empty: none
  std::string junit, markdown;  ///< files; empty: none
  bool allow_no_device = false;
};

std::vector<collector::Gate> parse_gates(const CheckOptions& options) {
  if (options.max_increase.empty() != options.baseline.empty()) {
    throw collector::UsageError(
        "--baseline and --max-increase go together, such as --baseline old.json --max-increase "
        "device.peak_bytes=2%");
  }
  if (options.max.empty() && options.max_increase.empty() && options.max_growth.empty()) {
    throw collector::UsageError(
        "nothing to check: give a limit, such as --max device.peak_bytes=8GiB");
  }
  std::vector<collector::Gate> gates;
  for (const std::string& text : options.max)
    gates.push_back(collector::parse_max(text, options.reading.sanitizer));
  if (!options.max_growth.empty())
    gates.push_back(collector::parse_max("device.step_growth_bytes=" + options.max_growth));
  for (const std::string& text : options.max_increase)
    gates.push_back(collector::parse_max_increase(text, options.reading.sanitizer));
  return gates;
}

/// Sites can be compared only if both sides have names, or neither has.
void say_nameless(const collector::Summary& baseline, const collector::Summary& summary) {
  for (const collector::PeakDiff& peak : collector::diff(baseline, summary).peaks) {
    const std::string text = collector::nameless_text(peak);
    if (text.empty()) continue;
    spdlog::warn("{}: {} (A: the baseline, B: this run)", peak.scope, text);
    return;
  }
}

int check(const CheckOptions& options) {
  const std::vector<collector::Gate> gates = parse_gates(options);
  for (const std::string& out : {options.out, options.junit, options.markdown})
    require_output(out, {options.log, options.baseline});
  collector::Options analysis{
      .reading = options.reading, .top = collector::kAllRows, .stacks = false};
  const bool devices_only = std::ranges::all_of(
      gates, [](const collector::Gate& gate) { return collector::is_device_metric(gate.metric); });
  if (devices_only && options.markdown.empty())  // Markdown shows the host's figures as well
    analysis.reading.heap = collector::HeapReading::kNone;
  ProgressBar bar;
  const collector::Summary summary =
      collector::load_run_figures(options.log, analysis, bar.callback());
  std::optional<collector::Summary> baseline;
  if (!options.baseline.empty())
    baseline = collector::load_run_figures(options.baseline, analysis, bar.callback());
  bar.clear();
  if (baseline) say_nameless(*baseline, summary);
  const collector::ViewStyle style = view_style(options);
  const std::vector<collector::GateResult> results = collector::check_gates(
      gates, summary, baseline ? &*baseline : nullptr,
      options.allow_no_device ? collector::NoDevice::kIsZero : collector::NoDevice::kFails, style);
  write_output(options.out,
               [&](std::ostream& out) { collector::write_gates(summary, results, out, style); });
  if (!options.junit.empty()) {
    write_output(options.junit,
                 [&](std::ostream& out) { collector::write_junit(summary, results, out); });
  }
  if (!options.markdown.empty()) {
    collector::append_to(options.markdown, [&](std::ostream& out) {
      collector::write_markdown(summary, results, out);
    });
  }
  if (!collector::all_passed(results)) return kGateFailed;
  return strict_code(options.strict, is_whole(summary) && (!baseline || is_whole(*baseline)));
}

}  // namespace

void add_check(CommandLine& line) {
  auto [verb, options] =
      line.add("check", "Exit with 1 if a run does not keep its memory limits", check);
  add_required(verb, "log", options.log, "FILE", "A log, or JSON that `report --json` wrote");
  add_list(verb, "--max", options.max, "METRIC=SIZE",
           "A limit, such as device.peak_bytes=8GiB or "
           "device.peak_bytes@phase:load=2GiB (docs/check.md)");
  add_value(verb, "--baseline", options.baseline, "FILE", "An earlier run: a log or JSON");
  add_list(verb, "--max-increase", options.max_increase, "METRIC=PERCENT|SIZE",
           "A limit over the baseline, such as device.peak_bytes=2% or =64MiB");
  add_value(verb, "--max-growth", options.max_growth, "SIZE",
            "A limit on what device memory grows by at each step, such as 0");
  add_value(verb, "--junit", options.junit, "FILE", "Write the results as JUnit XML");
  add_value(verb, "--markdown", options.markdown, "FILE",
            "Append the results as Markdown, for instance to $GITHUB_STEP_SUMMARY");
  verb.add_flag("--json", options.json, "As JSON");
  add_out(verb, options.out);
  verb.add_flag("--strict", options.strict,
                "Exit with 4 if all passed, but anything was lost, or the run has no end");
  verb.add_flag("--allow-no-device", options.allow_no_device,
                "A limit on device memory is kept if the run used no device");
  add_text_and_reading(verb, options);
}

}  // namespace gpupeak::tools
