#include <fmt/format.h>

#include <algorithm>

#include "collector/fit/need.h"
#include "collector/log/log_head.h"
#include "collector/rules/cards.h"
#include "collector/summary/gate.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {
namespace {

struct FitOptions {
  std::vector<std::string> logs;
  std::string capacity, gpu;  ///< empty: none
  std::string out;            ///< file; empty: standard output
  size_t top = 8;
  bool json = false;
  TextOptions text;
  collector::Reading reading;
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

/// The processes of a run that used a GPU; if none did, all.
std::vector<std::string> logs_that_matter(const std::vector<std::string>& names) {
  const std::vector<std::string> all = all_logs(names);
  std::vector<std::string> logs;
  for (const std::string& log : all) {
    const collector::LogHead head = collector::read_any_head(log);
    if (head.counters.device_events > 0) logs.push_back(log);
  }
  return logs.empty() ? all : logs;
}

/// Names the processes that used a GPU and have no log; empty: none is known.
std::string not_recorded_text(const std::vector<std::string>& names) {
  std::string text;
  for (const collector::RunLogs& run : runs_of(names, "")) {
    if (run.lost > 0) text += fmt::format("{} of the run's logs cannot be read; ", run.lost);
    if (!run.record) continue;
    for (const collector::RunRecord::Unrecorded& process : run.record->unrecorded) {
      if (process.used_gpu)
        text += fmt::format("pid {} {} used a GPU and was not recorded; ", process.pid,
                            collector::escape(process.name));
    }
  }
  return text.substr(0, text.size() - std::min<size_t>(text.size(), 2));
}

/// Takes the upper bounds away: the memory of processes that were not recorded comes on top of all
/// that is known. `why`: which processes.
void take_upper_bounds(const std::string& why, std::vector<collector::LogNeeds>& needs) {
  for (collector::LogNeeds& of_log : needs) {
    for (collector::DeviceNeed& need : of_log.devices) {
      need.most_bytes.reset();
      need.fails.clear();
      need.no_most.push_back(why);
    }
  }
}

int fit(const FitOptions& options) {
  const collector::FitQuestion question = question_of(options);
  require_output(options.out, options.logs);
  collector::Options analysis;
  analysis.stacks = false;
  analysis.reading = options.reading;
  std::vector<collector::LogNeeds> needs;
  {
    ProgressBar bar;
    for (const std::string& log : logs_that_matter(options.logs))
      needs.push_back(collector::needs_of(log, analysis, bar.callback()));
  }
  const std::string missing = not_recorded_text(options.logs);
  if (!missing.empty()) take_upper_bounds(missing, needs);
  const collector::FitReport report = collector::answer_fit(needs, question);
  const collector::TextStyle style = style_for(output_descriptor(options.out), options.text);
  write_output(options.out, [&](std::ostream& out) {
    if (options.json) {
      collector::write_fit_json(report, out);
    } else {
      collector::write_fit(report, options.top, out, style);
    }
  });
  if (report.devices.empty()) {
    if (!missing.empty()) say("{}", missing);
    return kGateFailed;
  }
  return !report.fit || *report.fit == collector::Fit::kFits ? kOk : kGateFailed;
}

}  // namespace

void add_fit(CommandLine& line) {
  auto [verb, options] = line.add("fit", "Whether a run would fit a card, and what to change", fit);
  verb.add_option("log", options.logs,
                  "Logs that `run` or the preloaded library wrote; several are of one run")
      ->required()
      ->type_name("FILE ...");
  CLI::Option* capacity =
      verb.add_option("--capacity", options.capacity,
                      "Of a card like the one that was recorded, or a part of it: 24GiB")
          ->type_name("SIZE");
  verb.add_option("--gpu", options.gpu, "A card by its name, such as T4 (docs/fit.md lists them)")
      ->type_name("NAME")
      ->excludes(capacity);
  add_top(verb, options.top, "Rows of what to change");
  verb.add_flag("--json", options.json, "As JSON");
  add_out(verb, options.out);
  add_text_options(verb, options.text);
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
