#include <cmath>

#include "collector/analyze/analyze.h"
#include "collector/fit/what_if.h"
#include "collector/run/run_logs.h"
#include "collector/text/error.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/run/first_screen.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

constexpr size_t kUsualRows = 10;

struct ReportOptions : ViewOptions {
  std::string format = "text";  ///< text, short, json, csv
  std::string html;             ///< file of a page, which is then written instead
  std::string by = "site";
  std::vector<std::string> at;  ///< as collector::find_moment() takes them; empty: the whole run
  std::vector<std::string> within;  ///< phases
  bool held = false;                ///< of one scope, at each of these moments
  size_t top = kUsualRows;
  bool byte_seconds = false;
  bool last_use = false;
  bool full = false;
  bool no_source = false;
};

bool is_held(const ReportOptions& options) {
  return options.held || options.at.size() > 1 || !options.within.empty() || !options.scope.empty();
}

int report_short(const ReportOptions& options) {
  write_in_turn(options, options.logs.size(), [&](auto& out, auto& style, size_t i) {
    out << first_screen(options.logs[i], options.reading, style);
  });
  return kOk;
}

/// "17.9", "+17.9" or "17.9s": seconds since the log's start. What else there is, find_moment()
/// knows.
collector::Moment moment_of(const collector::Profile& profile, collector::ScopeId scope,
                            const std::string& text) {
  std::string_view figure = text;
  if (figure.starts_with('+')) figure.remove_prefix(1);
  if (figure.ends_with('s')) figure.remove_suffix(1);
  const double seconds = collector::number_of(figure).value_or(-1);
  if (seconds >= 0 && seconds < 1e9) return {"", std::llround(seconds * 1e9)};
  const collector::NamedMoment found = collector::find_moment(profile, scope, text);
  if (found.events == found.kEnd || found.events == 0) return {"", found.time_ns};
  return {"", {}, found.events - 1};
}

/// Who held one scope, at several moments or within phases.
int report_held(const ReportOptions& options) {
  if (options.by != "site")
    throw collector::UsageError("--within and --scope have rows by site: not with --by");
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    const collector::ScopeId scope = profile.scope(options.scope);
    std::vector<collector::Moment> moments;
    for (const std::string& name : options.within) moments.push_back({name, {}});
    for (const std::string& at : options.at) moments.push_back(moment_of(profile, scope, at));
    if (moments.empty()) moments.emplace_back();
    const size_t top = options.full ? collector::kAllRows : options.top;
    collector::write_held(profile, scope, moments, top, out, style);
  });
}

/// The views that have neither a page nor a short form.
int report_view(const ReportOptions& options) {
  if (!options.html.empty() || options.format == "short" || (options.csv && !options.byte_seconds))
    throw collector::UsageError(
        options.byte_seconds ? "--byte-seconds is for text, --json and --csv"
        : options.last_use   ? "--last-use is for text and --json"
        : options.at.empty() ? "--within and --scope are for text and --json"
                             : "--at is for text and --json");
  require_one_log_for_csv(options.csv, options.logs);
  if (is_held(options)) return report_held(options);
  const collector::GroupBy by = collector::parse_group_by(options.by);
  const size_t top = options.full ? collector::kAllRows : options.top;
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    if (options.byte_seconds) {
      const auto held = collector::held_over_time(profile, collector::sides(profile));
      collector::write_byte_seconds(profile, held, by, top, out, style);
    } else if (options.last_use) {
      collector::write_last_use(profile, last_uses(profile), top, out, style);
    } else {
      collector::write_live(profile, live_at(profile, options.at).front(), by, top, out, style);
    }
  });
}

int report(const ReportOptions& asked) {
  ReportOptions options = asked;
  options.json = options.format == "json";
  options.csv = options.format == "csv";
  for (std::string& log : options.logs) log = collector::log_meant_by(log);
  if (options.byte_seconds || options.last_use || !options.at.empty() || is_held(options))
    return report_view(options);
  if (!options.html.empty()) {
    return strict_code(options.strict,
                       write_page(tabs_of(options.logs, options.process), options.reading,
                                  !options.no_source, options.html));
  }
  require_output(options.out, options.logs);
  if (options.format == "short" && !options.strict && options.process.empty() &&
      are_files(options.logs))
    return report_short(options);
  collector::Options analysis;
  analysis.by = collector::parse_group_by(options.by);
  analysis.top = options.top;
  analysis.reading = options.reading;
  analysis.stacks = options.json || options.csv;
  if (options.json || options.format == "text") analysis.complete = collector::add_lowering;
  require_one_log_for_csv(options.csv, options.logs);
  const bool in_full = options.json || (options.format == "text" && options.full);
  const std::vector<collector::Summary> summaries =
      analyze_all(collector::runs_of(options.logs, options.process), analysis,
                  in_full ? collector::RunDepth::kAll : collector::RunDepth::kGpus);
  const auto length = options.full || options.top != kUsualRows
                          ? collector::ReportLength::kFull
                          : collector::ReportLength::kOneScreen;
  write_in_turn(options, summaries.size(), [&](auto& out, auto& style, size_t i) {
    if (options.json) return collector::write_json(summaries[i], out);
    if (options.csv) return collector::write_csv(summaries[i], out);
    if (options.format == "short") return collector::write_short(summaries[i], out, style);
    collector::write_text(summaries[i], out, style, length);
  });
  return strict_code(options.strict, are_whole(summaries));
}

}  // namespace

void add_report(CommandLine& line) {
  auto [verb, options] =
      line.add("report", "Who held the memory at the peak, in which phase", report,
               R"(  gpupeak report bert.gplog
  gpupeak report 4711                           the log of a process that runs
  gpupeak report --within 'first run' bert.gplog  its highest, and by whom
  gpupeak report --at 17.9 --scope device:0 bert.gplog
  gpupeak report --by module --top 20 bert.gplog
  gpupeak report --json bert.gplog | jq '.metrics["device.peak_bytes"]'
  gpupeak report --html bert.html bert.gplog)");
  add_logs(verb, options.logs);
  add_process(verb, options.process);
  auto* format = verb.add_option_group("format");
  const auto add_format = [format, &chosen = options.format](const char* option, const char* name,
                                                             const char* description) {
    format->add_flag_callback(
        option, [&chosen, name] { chosen = name; }, description);
  };
  add_format("--json", "json", "The summary as JSON (docs/summary.schema.json)");
  add_format("--csv", "csv", "The holders at each peak as CSV");
  add_format("--short", "short", "The lines that a run ends with");
  format
      ->add_option("--html", options.html,
                   collector::has_page() ? "A page of one log or several, into this file"
                                         : "A page (not in this build: tools/bootstrap.sh page)")
      ->type_name("FILE");
  format->require_option(0, 1);
  add_choice(verb, "--by", options.by, grouping_names(), "What each row stands for");
  add_list(verb, "--at", options.at, "MOMENT",
           "Who held the memory at a moment: +1.25s, a mark, a phase (its highest), PHASE.end, "
           "end; may be repeated");
  add_list(verb, "--within", options.within, "PHASE",
           "At the highest while a phase of this name was open; may be repeated");
  add_scope(verb, options.scope);
  verb.add_flag("--held", options.held, "Of one scope alone; without a moment at its peak");
  auto* byte_seconds = verb.add_flag("--byte-seconds", options.byte_seconds,
                                     "What was held times for how long, over the whole run");
  auto* last_use =
      verb.add_flag("--last-use", options.last_use,
                    "When what was live at the peak was used (of a log by run --last-use)")
          ->excludes(byte_seconds);
  for (const char* held : {"--at", "--within", "--scope", "--held"}) {
    byte_seconds->excludes(verb.get_option(held));
    last_use->excludes(verb.get_option(held));
  }
  add_no_source(verb, options.no_source);
  verb.add_flag("--full", options.full,
                "Every section, not one screen; --top has more rows of each");
  add_top(verb, options.top, "Rows of each table; any other number implies --full");
  add_strict(verb, options.strict);
  add_output(verb, options);
}

}  // namespace gpupeak::tools
