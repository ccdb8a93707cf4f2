#include "tools/views/view.h"

#include "collector/fit/what_if.h"
#include "collector/run/run_logs.h"
#include "collector/timeline/time_series.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"
#include "tools/shared/command_line.h"

namespace gpupeak::tools {

void add_view_options(CLI::App& verb, ViewOptions& options) {
  add_logs(verb, options.logs);
  add_process(verb, options.process);
  add_scope(verb, options.scope);
  verb.add_flag("--json", options.json, "As JSON");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_text_options(verb, options.text);
  add_rules(verb, options.reading.rules);
}

std::vector<std::vector<collector::Held>> live_at(const collector::Profile& profile,
                                                  const std::vector<std::string>& moments) {
  const collector::ScopeId usual = profile.scope("");
  const std::vector<collector::ScopeId> sides = collector::sides(profile);
  std::vector<collector::NamedMoment> found;
  found.reserve(moments.size());
  for (const std::string& moment : moments) {
    found.push_back(moment == "peak" ? collector::peak_moment(profile, usual)
                                     : collector::find_moment(profile, usual, moment));
  }
  return collector::held_at(profile, sides, found);
}

collector::Reading reading_for(const ViewOptions& options) {
  collector::Reading reading = options.reading;
  if (options.scope.starts_with("device")) reading.heap = collector::HeapReading::kNone;
  return reading;
}

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
  write_output(
      path, [&](std::ostream& out) { collector::write_page("runs", runs, GPUPEAK_VERSION, out); });
  say_written(path);
  return whole;
}

}  // namespace gpupeak::tools
