#include <unistd.h>

#include <algorithm>

#include "collector/views/compare.h"
#include "collector/write/write_html.h"
#include "tools/commands.h"
#include "tools/gates/strict.h"
#include "tools/report/page.h"
#include "tools/shared/command_line.h"
#include "tools/shared/exit_codes.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
#include "tools/shared/terminal.h"

namespace gpupeak::tools {
namespace {

struct CompareOptions {
  std::vector<std::string> logs;
  std::string process;  ///< of each run; empty: the one that held the most
  std::string scope;    ///< as collector::Profile::scope() takes it
  std::string html;     ///< file of a page; empty: text
  std::string out;      ///< file; empty: standard output
  TextOptions text;
  size_t top = 20;
  bool json = false;
  bool no_source = false;
  bool strict = false;
  collector::Reading reading;
};

int compare(const CompareOptions& options) {
  const std::vector<std::string> logs = process_logs(options.logs, options.process);
  if (!options.html.empty()) {
    std::vector<PageTab> tabs;
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
    if (options.json) {
      collector::write_compare_json(runs, options.scope, options.top, out);
    } else {
      collector::write_compare(runs, options.scope, options.top, out,
                               style_for(output_descriptor(options.out), options.text));
    }
  });
  return strict_code(options.strict, std::all_of(runs.begin(), runs.end(), [](const auto& run) {
                       return is_whole(run->quality());
                     }));
}

}  // namespace

void add_compare(CommandLine& line) {
  auto [verb, options] = line.add("compare", "Peaks, phases and sites of several runs", compare);
  verb.add_option("logs", options.logs, "Two logs or more")
      ->required()
      ->expected(2, 1000)
      ->type_name("LOG ...");
  add_process(verb, options.process);
  verb.add_option("--scope", options.scope, "Which memory phases and sites are of");
  verb.add_option("--html", options.html,
                  collector::has_page()
                      ? "Write a page: the runs' curves over each other, and tables"
                      : "Write a page (not in this build: tools/bootstrap.sh page)")
      ->type_name("FILE");
  add_no_source(verb, options.no_source);
  add_top(verb, options.top, "Sites");
  verb.add_flag("--json", options.json, "As JSON");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_text_options(verb, options.text);
  add_rules(verb, options.reading.rules);
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
