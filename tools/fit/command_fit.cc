#include <algorithm>
#include <iterator>

#include "collector/fit/need.h"
#include "collector/fit/what_if.h"
#include "collector/log/log_head.h"
#include "collector/rules/cards.h"
#include "collector/summary/gate.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

struct FitOptions : OutputOptions {
  std::vector<std::string> logs;
  std::string capacity, gpu;  ///< empty: none
  size_t top = 8;
};

collector::FitQuestion question_of(const FitOptions& options) {
  collector::FitQuestion question;
  if (!options.capacity.empty()) {
    question.capacity = collector::parse_size(options.capacity);
    if (*question.capacity == 0) throw collector::UsageError("--capacity: no card has 0 bytes");
  } else if (!options.gpu.empty()) {
    question.card = &collector::find_card(options.gpu);
  } else {
    question.cards = collector::builtin_cards();
  }
  return question;
}

int fit(const FitOptions& options) {
  const collector::FitQuestion question = question_of(options);
  require_output(options.out, options.logs);
  const collector::Options analysis{.reading = options.reading, .stacks = false};
  std::vector<collector::LogNeeds> needs;
  std::vector<std::string> logs = collector::all_logs(options.logs);
  // If no process of the runs used a GPU, all count.
  const auto others = std::stable_partition(logs.begin(), logs.end(), [](const std::string& log) {
    return collector::read_head(log).counters.device_events > 0;
  });
  if (others != logs.begin()) logs.erase(others, logs.end());
  {
    ProgressBar bar;
    for (const std::string& log : logs)
      needs.push_back(collector::needs_of(log, analysis, bar.callback()));
  }
  const std::string missing = collector::take_upper_bounds(collector::runs_of(options.logs), needs);
  const collector::FitReport report = collector::answer_fit(needs, question);
  write_output(options.out, [&](std::ostream& out) {
    collector::write_fit(report, options.top, out, view_style(options));
  });
  if (report.devices.empty()) {
    if (!missing.empty()) say("{}", missing);
    return kGateFailed;
  }
  return !report.fit || *report.fit == collector::Fit::kFits ? kOk : kGateFailed;
}

struct WhatIfOptions : OutputOptions {
  std::vector<std::string> logs, without, scale;
  std::string html;
  collector::Changes changes;  ///< but for `without` and `scale`
  size_t top = 10;
};

/// Parses "Conv*=0.5".
collector::Changes::Scale parse_scale(const std::string& text) {
  const size_t equals = text.rfind('=');
  const bool has_pattern = equals != std::string::npos && equals > 0;
  const double factor =
      has_pattern ? collector::number_of(text.substr(equals + 1)).value_or(-1) : -1;
  if (!(factor >= 0 && factor <= 1000))
    throw collector::UsageError("--scale " + collector::escape(text) +
                                ": give a pattern and a factor from 0 to 1000, as 'Conv*=0.5'");
  return {text.substr(0, equals), factor};
}

int whatif(const WhatIfOptions& options) {
  collector::Changes changes = options.changes;
  for (const std::string& pattern : options.without) changes.scales.push_back({pattern, 0});
  for (const std::string& text : options.scale) changes.scales.push_back(parse_scale(text));
  require_output(options.html.empty() ? options.out : options.html, options.logs);
  if (!options.html.empty()) collector::require_page();
  const collector::Options analysis{
      .reading = options.reading, .top = options.top, .stacks = false};
  const auto curves =
      options.html.empty() ? collector::WithCurves::kNo : collector::WithCurves::kYes;
  // If no change is given, the answers are which changes there are, and what each gains.
  const bool is_given = !changes.scales.empty() || changes.changes_arenas();
  std::vector<std::vector<collector::WhatIf>> answers;  // of each log
  {
    ProgressBar bar;
    for (const std::string& log : options.logs) {
      const collector::Progress progress = bar.callback();
      if (is_given)
        answers.push_back({collector::what_if(log, changes, analysis, progress, curves)});
      else
        answers.push_back(collector::what_would_lower(log, analysis, progress, curves));
    }
  }
  if (!options.html.empty()) {
    std::vector<collector::WhatIf> all;
    for (auto& of_log : answers) std::move(of_log.begin(), of_log.end(), std::back_inserter(all));
    write_output(options.html, [&](std::ostream& out) {
      collector::write_what_if_page(all, GPUPEAK_VERSION, out);
    });
    say_written(options.html);
    return kOk;
  }
  write_in_turn(options, answers.size(), [&](auto& out, auto& style, size_t i) {
    if (is_given) return collector::write_what_if(answers[i].front(), out, style);
    collector::write_lowering(answers[i], options.top, out, style);
    if (answers[i].empty() && !style.is_json())
      out << "no setting and no site alone would lower the peak of a GPU\n";
  });
  return kOk;
}

}  // namespace

void add_fit(CommandLine& line) {
  auto [verb, options] =
      line.add("fit", "Whether a run would fit a card, and what to change", fit,
               R"(  gpupeak fit bert.gplog                     which cards would do
  gpupeak fit --capacity 24GiB bert.gplog
  gpupeak fit --gpu T4 bert.gplog)");
  add_required(verb, "log", options.logs, "FILE ...",
               "Logs that `run` or the preloaded library wrote; several are of one run");
  CLI::Option* capacity =
      add_value(verb, "--capacity", options.capacity, "SIZE",
                "Of a card like the one that was recorded, or a part of it: 24GiB");
  add_value(verb, "--gpu", options.gpu, "NAME",
            "A card by its name, such as T4 (docs/fit.md lists them)")
      ->excludes(capacity);
  add_top(verb, options.top, "Rows of what to change");
  verb.add_flag("--json", options.json, "As JSON");
  add_output(verb, options);
}

void add_whatif(CommandLine& line) {
  auto [verb, options] =
      line.add("whatif", "What the peak would be with a change", whatif,
               R"(  gpupeak whatif bert.gplog                  what would lower the peak
  gpupeak whatif --scale activations=0.5 bert.gplog
  gpupeak whatif --expandable-segments --html bert.html bert.gplog)");
  add_logs(verb, options.logs);
  add_list(verb, "--without", options.without, "PATTERN",
           "Leave out the blocks of a function, site, tag or phase; may be repeated");
  add_list(verb, "--scale", options.scale, "PATTERN=FACTOR",
           "Make them so many times as large; may be repeated");
  verb.add_flag("--expandable-segments", options.changes.expandable_segments,
                "PyTorch's segments grow in place");
  verb.add_option_function<std::string>(
          "--arena",
          [&changes = options.changes](const std::string&) { changes.same_as_requested = true; },
          "ONNX Runtime's arena takes as much as is requested")
      ->type_name("same-as-requested")
      ->check(one_of({"same-as-requested"}));
  verb.add_flag("--no-preallocation", options.changes.no_preallocation,
                "Pools take nothing in advance, such as JAX's three quarters of the card");
  verb.add_flag("--free-at-last-use", options.changes.free_at_last_use,
                "Blocks of devices go when they were last seen used (of a log by run --last-use)");
  verb.add_flag("--without-unused", options.changes.without_unused,
                "Blocks of the driver that were never seen used are not taken");
  verb.add_flag("--take-at-first-use", options.changes.take_at_first_use,
                "Blocks of the driver are taken when they were first seen used");
  add_top(verb, options.top, "Rows of each table");
  auto* json = verb.add_flag("--json", options.json, "As JSON (docs/json.md)");
  add_value(verb, "--html", options.html, "FILE",
            "A page with the curves over time, into this file")
      ->excludes(json);
  add_output(verb, options);
}

}  // namespace gpupeak::tools
