#include <algorithm>

#include "collector/files/fresh_file.h"
#include "collector/run/run_logs.h"
#include "collector/text/error.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

constexpr size_t kMarkdownRows = 3;  // more of them nobody reads in a comment

struct DiffOptions : ViewOptions {
  /// Two moments of `a`'s run, as collector::find_moment() takes them.
  std::vector<std::string> at;
  std::string a, b;      ///< logs, or JSON that `report --json` wrote
  std::string markdown;  ///< file to append to; empty: none
  std::string by = "site";
  size_t top = 10;
};

/// Two moments of one run.
int diff_moments(const DiffOptions& options) {
  if (options.at.size() != 2 || !options.b.empty() || !options.markdown.empty()) {
    throw collector::UsageError(
        "two moments of one log are compared: gpupeak diff LOG --at MOMENT --at MOMENT");
  }
  ViewOptions view = options;
  view.logs = {options.a};
  const collector::GroupBy by = collector::parse_group_by(options.by);
  return show_view(view, [&](auto& profile, auto& out, auto& style) {
    const auto held = live_at(profile, options.at);
    collector::write_between(profile, held[0], held[1], by, options.top, out, style);
  });
}

int diff(const DiffOptions& options) {
  if (!options.at.empty()) return diff_moments(options);
  if (options.b.empty()) throw collector::UsageError("no B is named, nor two moments of A by --at");
  for (const std::string& out : {options.out, options.markdown})
    require_output(out, {options.a, options.b});
  const collector::Options analysis{.reading = options.reading,
                                    .top = collector::kAllRows,
                                    .by = collector::parse_group_by(options.by),
                                    .stacks = false};
  ProgressBar bar;
  const collector::Summary a = collector::load_run_figures(options.a, analysis, bar.callback());
  const collector::Summary b = collector::load_run_figures(options.b, analysis, bar.callback());
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

}  // namespace

void add_diff(CommandLine& line) {
  auto [verb, options] = line.add("diff", "What grew from one run to another, by site", diff);
  add_required(verb, "A", options.a, "FILE", "A log, or JSON that `report --json` wrote");
  add_value(verb, "B", options.b, "FILE", "The later run");
  add_list(verb, "--at", options.at, "MOMENT",
           "Two moments of one run instead: +1.25s, a mark, a phase, PHASE.end, peak, end");
  add_choice(verb, "--by", options.by, grouping_names(), "What each row stands for");
  add_top(verb, options.top, "Rows of each table");
  verb.add_flag("--json", options.json, "As JSON, with all rows");
  add_value(verb, "--markdown", options.markdown, "FILE",
            "Append the peaks and the three largest changes, for a comment or a step summary");
  verb.add_flag("--strict", options.strict,
                "Exit with 4 if anything was lost in either run, or it has no end");
  add_out(verb, options.out);
  add_text_and_reading(verb, options);
}

}  // namespace gpupeak::tools
