#include <algorithm>
#include <map>

#include "collector/files/fresh_file.h"
#include "collector/log/parallel.h"
#include "collector/run/run_logs.h"
#include "collector/text/error.h"
#include "collector/text/name_match.h"
#include "collector/text/text_format.h"
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

constexpr size_t kMarkdownRows = 3;  // more of them nobody reads in a comment

struct DiffOptions : ViewOptions {
  /// Two moments of one run, as collector::find_moment() takes them.
  std::vector<std::string> at;
  std::string markdown;  ///< file to append to; empty: none
  std::string by = "site";
  size_t top = 10;
  // Of runs side by side:
  bool side_by_side = false;
  std::string html;  ///< file of a page; empty: text
  bool no_source = false;
  // Of folders:
  std::string against;  ///< a folder of earlier runs; empty: none
  std::string sort = "device";
  std::string only;  ///< a pattern; empty: all runs
};

const std::map<std::string, collector::SuiteOrder> kOrders{
    {"device", collector::SuiteOrder::kDevice},
    {"host", collector::SuiteOrder::kHost},
    {"time", collector::SuiteOrder::kTime},
    {"change", collector::SuiteOrder::kChange},
    {"name", collector::SuiteOrder::kName}};

/// "scan" of "runs/scan.gplog".
std::string run_name(const std::string& log) {
  const std::string_view name = collector::file_name(log);
  return std::string(name.substr(0, name.rfind('.')));
}

/// A row for each run of the folders whose name the pattern matches, in the order of the names.
std::vector<collector::SuiteRow> suite_rows(const std::vector<std::string>& folders,
                                            const DiffOptions& options) {
  std::vector<std::string> logs;
  for (const collector::RunLogs& run : collector::runs_of(folders)) {
    if (options.only.empty() || collector::glob_match(options.only, run_name(run.name)))
      logs.push_back(run.name);
  }
  const collector::Options reading = screen_options(options.reading);
  std::vector<collector::SuiteRow> rows(logs.size());
  collector::in_parallel(logs.size(), 1, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      try {
        const collector::Summary summary = collector::load_run_figures(logs[i], reading);
        rows[i] = collector::suite_row(run_name(logs[i]), summary);
        rows[i].complete = summary.run.end.in_order() && is_whole(summary);
      } catch (const collector::LogError& error) {
        rows[i].run = run_name(logs[i]);
        rows[i].error = error.what();
      }
    }
  });
  return rows;
}

int diff_folders(const DiffOptions& options) {
  require_output(options.out, options.logs);
  std::vector<collector::SuiteRow> rows = suite_rows(options.logs, options);
  if (!options.against.empty()) {
    std::map<std::string, collector::SuiteRow> before;
    for (collector::SuiteRow& row : suite_rows({options.against}, options))
      before.emplace(row.run, std::move(row));
    for (collector::SuiteRow& row : rows) {
      const auto known = before.find(row.run);
      if (known == before.end()) continue;
      row.device_before = known->second.device_bytes;
      row.host_before = known->second.host_bytes;
    }
  }
  collector::order(rows, kOrders.at(options.sort));
  const bool compared = !options.against.empty();
  if (!options.html.empty())
    write_output(options.html,
                 [&](std::ostream& out) { collector::write_suite_html(rows, compared, out); });
  if (options.html.empty() || !options.out.empty())
    write_output(options.out, [&](std::ostream& out) {
      collector::write_suite(rows, compared, out, view_style(options));
    });
  return strict_code(options.strict, std::ranges::all_of(rows, &collector::SuiteRow::complete));
}

int diff_side_by_side(const DiffOptions& options) {
  const std::vector<std::string> logs = process_logs(options.logs, options.process);
  if (!options.html.empty()) {
    std::vector<PageTab> tabs;
    tabs.reserve(logs.size());
    for (const std::string& log : logs) tabs.push_back({log});
    return strict_code(options.strict,
                       write_page(tabs, options.reading, !options.no_source, options.html));
  }
  require_output(options.out, options.logs);
  collector::Profiles runs;
  for (const std::string& log : logs) {
    ProgressBar bar;
    runs.push_back(
        std::make_unique<collector::Profile>(log, bar.callback(), nullptr, options.reading));
  }
  write_output(options.out, [&](std::ostream& out) {
    collector::write_compare(runs, options.scope, options.top, out, view_style(options));
  });
  return strict_code(options.strict,
                     are_whole(runs, [](const auto& run) { return run->quality(); }));
}

/// Two moments of one run.
int diff_moments(const DiffOptions& options) {
  if (options.at.size() != 2 || options.logs.size() != 1 || !options.markdown.empty())
    throw collector::UsageError(
        "two moments of one log are compared: gpupeak diff LOG --at MOMENT --at MOMENT");
  const collector::GroupBy by = collector::parse_group_by(options.by);
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    const auto held = live_at(profile, options.at);
    collector::write_between(profile, held[0], held[1], by, options.top, out, style);
  });
}

/// Two runs, by what their rows stand for.
int diff_sites(const DiffOptions& options) {
  for (const std::string& out : {options.out, options.markdown}) require_output(out, options.logs);
  const collector::Options analysis{.reading = options.reading,
                                    .top = collector::kAllRows,
                                    .by = collector::parse_group_by(options.by),
                                    .stacks = false};
  ProgressBar bar;
  const collector::Summary a =
      collector::load_run_figures(options.logs.front(), analysis, bar.callback());
  const collector::Summary b =
      collector::load_run_figures(options.logs.back(), analysis, bar.callback());
  bar.clear();
  if (!options.markdown.empty()) {
    collector::append_to(options.markdown, [&](std::ostream& out) {
      collector::write_diff_markdown(a, b, std::min<size_t>(options.top, kMarkdownRows), out);
    });
  }
  write_output(options.out, [&](std::ostream& out) {
    collector::write_diff(a, b, options.top, out, view_style(options));
  });
  return strict_code(options.strict, is_whole(a) && is_whole(b));
}

int diff(const DiffOptions& options) {
  if (!options.at.empty()) return diff_moments(options);
  if (are_folders(options.logs)) return diff_folders(options);
  if (options.logs.size() < 2)
    throw collector::UsageError(
        "2 logs are needed, or a folder of logs, or two moments of one log by --at");
  if (!options.against.empty() || options.csv || !options.only.empty())
    throw collector::UsageError("--against, --csv and --only are for folders of logs");
  if (options.side_by_side || options.logs.size() > 2 || !options.html.empty())
    return diff_side_by_side(options);
  return diff_sites(options);
}

}  // namespace

void add_diff(CommandLine& line) {
  auto [verb, options] =
      line.add("diff", "What grew from one run to another; of a folder a row a run", diff,
               R"(  gpupeak diff before.gplog after.gplog
  gpupeak diff --by function baseline.json after.gplog
  gpupeak diff bert.gplog --at 'warm-up done' --at end
  gpupeak diff a.gplog b.gplog c.gplog
  gpupeak diff --html abc.html a.gplog b.gplog
  gpupeak diff runs --against runs-of-last-week)");
  add_required(verb, "logs", options.logs, "FILE|FOLDER ...",
               "Two logs or more, or JSON that `report --json` wrote of two; or folders of logs")
      ->expected(1, 1000);
  add_list(verb, "--at", options.at, "MOMENT",
           "Two moments of one run instead: +1.25s, a mark, a phase, PHASE.end, peak, end");
  add_choice(verb, "--by", options.by, grouping_names(), "What each row of two runs stands for");
  add_value(verb, "--markdown", options.markdown, "FILE",
            "Append the peaks and the three largest changes, for a comment or a step summary");
  verb.add_flag("--side-by-side", options.side_by_side,
                "Peaks, phases and sites in a column a run, as of three runs and more");
  verb.add_option("--scope", options.scope, "Side by side: which memory phases and sites are of");
  add_value(verb, "--html", options.html, "FILE",
            collector::has_page() ? "Write a page: the runs' curves over each other, and tables"
                                  : "Write a page (not in this build: tools/bootstrap.sh page)");
  add_no_source(verb, options.no_source);
  add_value(verb, "--against", options.against, "FOLDER",
            "A folder of earlier runs: how much each run, by its log's name, has grown");
  add_choice(verb, "--sort", options.sort, collector::keys_of(kOrders),
             "Rows of a folder by device, host, time, change or name");
  add_value(verb, "--only", options.only, "PATTERN",
            "Runs of a folder whose names match, as 'conv*'");
  verb.add_flag("--csv", options.csv, "Rows of a folder as CSV");
  add_process(verb, options.process);
  add_top(verb, options.top, "Rows of each table");
  verb.add_flag("--json", options.json, "As JSON, with all rows");
  add_strict(verb, options.strict);
  add_output(verb, options);
}

}  // namespace gpupeak::tools
