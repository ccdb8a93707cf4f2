#include "tools/report/page.h"

#include "collector/analyze/profile.h"
#include "collector/fit/what_if.h"
#include "collector/run/analyze_run.h"
#include "collector/timeline/time_series.h"
#include "collector/write/write_html.h"
#include "tools/gates/strict.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {

std::vector<PageTab> tabs_of(const std::vector<std::string>& names, const std::string& process) {
  std::vector<PageTab> tabs;
  for (collector::RunLogs& run : runs_of(names, process)) {
    const size_t lead = run.lead(), first = tabs.size();
    tabs.push_back({run.logs[lead].path});
    for (size_t i = 0; i < run.logs.size(); ++i) {
      if (i != lead && run.logs[i].head.counters.device_events > 0)
        tabs.push_back({run.logs[i].path});
    }
    tabs[first].run = std::move(run);
  }
  return tabs;
}

bool write_page(const std::vector<PageTab>& tabs, const collector::Reading& reading,
                bool with_source, const std::string& path) {
  std::vector<std::string> logs;
  for (const PageTab& tab : tabs) logs.push_back(tab.log);
  require_output(path, logs);
  collector::require_page();
  bool whole = true;
  std::vector<std::string> runs;
  for (const PageTab& tab : tabs) {
    ProgressBar bar;
    collector::TimeSeries times;
    collector::Profile profile(tab.log, bar.callback(), &times, reading);
    times.finish(profile.replay());
    collector::PageLog read = collector::read_for_page(profile, times, bar.callback());
    if (tab.run)
      read.run = collector::analyze_run(*tab.run, {.reading = reading}, collector::RunDepth::kGpus,
                                        bar.callback());
    runs.push_back(
        collector::page_data(profile, times, read, with_source, collector::add_lowering));
    whole &= read.run ? is_whole(*read.run) : is_whole(profile.quality());
  }
  write_output(path, [&](std::ostream& out) { collector::write_html(runs, GPUPEAK_VERSION, out); });
  say_written(path);
  return whole;
}

}  // namespace gpupeak::tools
