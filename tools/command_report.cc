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
#include "in_time.h"
#include "output.h"
#include "page.h"
#include "several_logs.h"
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
  TextOptions text;
  size_t top = kUsualRows;
  double within = 0;  ///< seconds for a short summary; 0: as long as it takes
  bool full = false;
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

/// As far as can be told in so many seconds.
int report_within(const ReportOptions& options) {
  if (options.format != "short" || options.strict)
    throw collector::UsageError("--within goes with --short, and without --strict");
  const collector::TextStyle style = style_for(output_descriptor(options.out), options.text);
  write_output(options.out, [&](std::ostream& out) {
    write_in_turn(out, options.logs.size(), false, [&](size_t i) {
      out << short_summary(options.logs[i], options.reading, style, options.within);
    });
  });
  return kOk;
}

int report(const ReportOptions& options) {
  if (!options.html.empty()) {
    return strict_code(options.strict, write_page(options.logs, options.reading, options.html));
  }
  require_output(options.out, options.logs);
  if (options.within > 0) return report_within(options);
  collector::Options analysis;
  analysis.by = collector::parse_group_by(options.by);
  analysis.top = options.top;
  analysis.reading = options.reading;
  analysis.stacks = options.format == "json" || options.format == "csv";
  require_one_log_for_csv(options.format == "csv", options.logs);
  const std::vector<collector::Summary> summaries = analyze_all(options.logs, analysis);
  const collector::TextStyle style = style_for(output_descriptor(options.out), options.text);
  write_output(options.out, [&](std::ostream& out) {
    write_in_turn(out, summaries.size(), options.format == "json",
                  [&](size_t i) { write_one(summaries[i], options, out, style); });
  });
  return strict_code(options.strict, are_whole(summaries));
}

}  // namespace

void add_report(CommandLine& line) {
  auto [verb, options] =
      line.add("report", "Who held the memory at the peak, in which phase", report);
  add_logs(verb, options.logs);
  auto* format = verb.add_option_group("format");
  const auto add_format = [format, &chosen = options.format](const char* option, const char* name,
                                                             const char* description) {
    format->add_flag_callback(
        option, [&chosen, name] { chosen = name; }, description);
  };
  add_format("--json", "json", "The summary as JSON (docs/summary.schema.json)");
  add_format("--csv", "csv", "The holders at each peak as CSV");
  add_format("--short", "short", "The lines that a run ends with");
  verb.add_option("--within", options.within,
                  "With --short: where that takes longer, what was counted, without who held it")
      ->type_name("SECONDS")
      ->check(a_time());
  format->add_option("--html", options.html, "A page of one log or several, into this file")
      ->type_name("FILE");
  format->require_option(0, 1);
  verb.add_option("--by", options.by, "What each row stands for")
      ->check(one_of(grouping_names()))
      ->capture_default_str();
  verb.add_flag("--full", options.full, "Every section and row, not one screen");
  add_top(verb, options.top, "Rows of each table; any other number implies --full");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_text_options(verb, options.text);
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
