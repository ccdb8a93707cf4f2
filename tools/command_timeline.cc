#include <unistd.h>

#include <optional>

#include "collector/timeline/time_series.h"
#include "collector/views/timeline.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "picture.h"
#include "rule_choice.h"
#include "terminal.h"

namespace gpupeak::tools {

int timeline(const TimelineOptions& options) {
  collector::TimeSeries times;
  std::optional<collector::Profile> profile;
  {
    ProgressBar bar;
    profile.emplace(options.view.log, bar.callback(), &times, rule_choice(options.view.rules));
  }
  times.finish(profile->replay());
  const auto svg = [&](std::ostream& out) {
    collector::write_timeline_svg(*profile, times, options.view.scope, out);
  };
  if (!options.svg.empty()) write_output(options.svg, svg);
  if (!options.png.empty()) write_png(options.png, svg);
  if (options.view.json) {
    write_output("", [&](std::ostream& out) {
      collector::write_timeline_json(*profile, times, options.view.scope, out);
    });
  } else if (options.svg.empty() && options.png.empty()) {
    write_output("", [&](std::ostream& out) {
      collector::write_timeline(*profile, times, options.view.scope, options.height, out,
                                style_for(STDOUT_FILENO, options.view.color));
    });
  }
  return options.view.strict && !profile->quality().exact ? kIncomplete : kOk;
}

}  // namespace gpupeak::tools
