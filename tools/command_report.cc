#include <unistd.h>

#include <algorithm>

#include "collector/analyze/analyze.h"
#include "collector/text/error.h"
#include "collector/write/write_csv.h"
#include "collector/write/write_json.h"
#include "collector/write/write_short.h"
#include "collector/write/write_text.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "page.h"
#include "strict.h"
#include "terminal.h"

namespace gpupeak::tools {
namespace {

constexpr size_t kUsualRows = 10;

struct ReportOptions {
  std::vector<std::string> logs;
  std::string format = "text";  ///< text, short, json, csv
  std::string html;             ///< file of a page, instead of the format
  std::string out;              ///< file; empty: standard output
  std::string by = "site";
  std::string color = "auto";
  size_t top = kUsualRows;
  bool full = false;
  bool bytes = false;
  bool strict = false;
  collector::Reading reading;
};

void write_one(const collector::Summary& summary, const ReportOptions& options, std::ostream& out,
               const collector::TextStyle& style) {
  if (options.format == "json")
    collector::write_json(summary, out);
  else if (options.format == "csv")
    collector::write_csv(summary, out);
  else if (options.format == "short")
    collector::write_short(summary, out, style);
  else
    collector::write_text(summary, out, style,
                          options.full || options.top != kUsualRows
                              ? collector::ReportLength::kFull
                              : collector::ReportLength::kOneScreen);
}

/// One summary as ever; several in turn, as JSON an array of them.
void write_all(const std::vector<collector::Summary>& summaries, const ReportOptions& options,
               std::ostream& out, const collector::TextStyle& style) {
  const bool array = options.format == "json" && summaries.size() > 1;
  const char* separator = array ? "[\n" : "";
  for (const collector::Summary& summary : summaries) {
    out << separator;
    write_one(summary, options, out, style);
    separator = array ? ",\n" : "\n";
  }
  if (array) out << "]\n";
}

int report(const ReportOptions& options) {
  if (!options.html.empty()) {
    return strict_code(options.strict, write_page(options.logs, options.reading, options.html));
  }
  require_output(options.out, options.logs);
  collector::Options analysis;
  analysis.by = collector::parse_group_by(options.by);
  analysis.top = options.top;
  analysis.reading = options.reading;
  analysis.stacks = options.format == "json" || options.format == "csv";
  if (options.format == "csv" && options.logs.size() > 1) {
    throw collector::UsageError("--csv takes one log: its rows do not say which log they are of");
  }
  std::vector<collector::Summary> summaries;
  {
    ProgressBar bar;
    for (const std::string& log : options.logs) {
      summaries.push_back(collector::analyze(log, analysis, bar.callback()));
    }
  }
  const int fd = output_descriptor(options.out);
  write_output(options.out, [&](std::ostream& out) {
    collector::TextStyle style = style_for(fd, options.color);
    style.bytes = options.bytes;
    write_all(summaries, options, out, style);
  });
  return strict_code(options.strict,
                     std::all_of(summaries.begin(), summaries.end(),
                                 [](const auto& summary) { return is_whole(summary.quality); }));
}

}  // namespace

void add_report(CommandLine& line) {
  auto [verb, options] =
      line.add("report", "Who held the memory at the peak, in which phase", report);
  verb.add_option("log", options.logs, "Logs that `run` or the preloaded library wrote")
      ->required()
      ->type_name("FILE ...");
  auto* format = verb.add_option_group("format");
  const auto add_format = [format, &chosen = options.format](const char* option, const char* name,
                                                             const char* description) {
    format->add_flag_callback(
        option, [&chosen, name] { chosen = name; }, description);
  };
  add_format("--json", "json", "The summary as JSON (docs/summary.schema.json)");
  add_format("--csv", "csv", "The holders at each peak as CSV");
  add_format("--short", "short", "The lines that a run ends with");
  format->add_option("--html", options.html, "A page of one log or several, into this file")
      ->type_name("FILE");
  format->require_option(0, 1);
  verb.add_option("--by", options.by, "What each row stands for")
      ->check(one_of(grouping_names()))
      ->capture_default_str();
  verb.add_flag("--full", options.full, "Every section and row, not one screen");
  verb.add_flag("--bytes", options.bytes, "Sizes as plain bytes");
  add_top(verb, options.top, "Rows of each table; any other number implies --full");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_color(verb, options.color);
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
