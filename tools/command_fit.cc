#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "collector/fit/need.h"
#include "collector/rules/cards.h"
#include "collector/summary/gate.h"
#include "collector/text/error.h"
#include "collector/views/fit.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "terminal.h"

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

/// Processes that the program started have logs of their own in a folder beside its log, where
/// `run` put them: what they need is no part of the answer, unless they are given too.
void note_children(const std::string& log, const std::vector<std::string>& given,
                   collector::LogNeeds& needs) {
  namespace fs = std::filesystem;
  const fs::path path(log);
  const fs::path folder = path.parent_path() / (path.stem().string() + ".children");
  size_t left_out = 0;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != ".gplog") continue;
    const bool is_given = std::any_of(given.begin(), given.end(), [&](const std::string& other) {
      std::error_code none;
      return fs::equivalent(other, entry->path(), none);
    });
    left_out += !is_given;
  }
  if (left_out == 0) return;
  for (collector::DeviceNeed& need : needs.devices) {
    need.notes.push_back(
        fmt::format("{} of processes that it started {} not part of this: give {} as well",
                    left_out == 1 ? "the log" : fmt::format("{} logs", left_out),
                    left_out == 1 ? "is" : "are", left_out == 1 ? "it" : "them"));
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
    for (const std::string& log : options.logs) {
      needs.push_back(collector::needs_of(log, analysis, bar.callback()));
      note_children(log, options.logs, needs.back());
    }
  }
  const collector::FitReport report = collector::answer_fit(needs, question);
  const collector::TextStyle style = style_for(output_descriptor(options.out), options.text);
  write_output(options.out, [&](std::ostream& out) {
    if (options.json) {
      collector::write_fit_json(report, out);
    } else {
      collector::write_fit(report, options.top, out, style);
    }
  });
  if (report.devices.empty()) return kGateFailed;
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
