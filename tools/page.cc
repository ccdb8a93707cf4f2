#include "page.h"

#include "collector/analyze/profile.h"
#include "collector/fit/what_if.h"
#include "collector/timeline/time_series.h"
#include "collector/write/write_html.h"
#include "output.h"
#include "strict.h"
#include "terminal.h"

namespace gpupeak::tools {
bool write_page(const std::vector<std::string>& logs, const collector::Reading& reading,
                bool with_source, const std::string& path) {
  require_output(path, logs);
  collector::require_page();
  bool whole = true;
  std::vector<std::string> runs;
  for (const std::string& log : logs) {
    ProgressBar bar;
    collector::TimeSeries times;
    collector::Profile profile(log, bar.callback(), &times, reading);
    times.finish(profile.replay());
    const collector::PageLog read = collector::read_for_page(profile, times, bar.callback());
    runs.push_back(
        collector::page_data(profile, times, read, with_source, collector::add_lowering));
    whole &= is_whole(profile.quality());
  }
  write_output(path, [&](std::ostream& out) { collector::write_html(runs, GPUPEAK_VERSION, out); });
  say_written(path);
  return whole;
}

}  // namespace gpupeak::tools
