#include <unistd.h>

#include <optional>

#include "collector/timeline/time_series.h"
#include "collector/views/timeline.h"
#include "command_line.h"
#include "commands.h"
#include "exit_codes.h"
#include "output.h"
#include "picture.h"
#include "strict.h"
#include "terminal.h"
#include "view.h"

namespace gpupeak::tools {
namespace {

struct TimelineOptions : ViewOptions {
  std::string svg, png;  ///< files; with one of them, no text
  size_t height = 8;     ///< rows of a chart
};

int timeline(const TimelineOptions& options) {
  for (const std::string& out : {options.svg, options.png, options.out})
    require_output(out, {options.log});
  collector::TimeSeries times;
  std::optional<collector::Profile> profile;
  {
    ProgressBar bar;
    profile.emplace(options.log, bar.callback(), &times, options.reading);
  }
  times.finish(profile->replay());
  const auto svg = [&](std::ostream& out) {
    collector::write_timeline_svg(*profile, times, options.scope, out);
  };
  if (!options.svg.empty()) write_output(options.svg, svg);
  if (!options.png.empty()) write_png(options.png, svg);
  for (const std::string& path : {options.svg, options.png}) say_written(path);
  if (options.json) {
    write_output(options.out, [&](std::ostream& out) {
      collector::write_timeline_json(*profile, times, options.scope, out);
    });
  } else if (options.svg.empty() && options.png.empty()) {
    write_output(options.out, [&](std::ostream& out) {
      collector::write_timeline(*profile, times, options.scope, options.height, out,
                                style_for(output_descriptor(options.out), options.color));
    });
  }
  return strict_code(options.strict, is_whole(profile->quality()));
}

}  // namespace

void add_timeline(CommandLine& line) {
  auto [verb, options] = line.add("timeline", "Memory over time, as a chart", timeline);
  add_view_options(verb, options);
  verb.add_option("--height", options.height, "Rows of a chart")
      ->check(between(1, 100))
      ->capture_default_str();
  verb.add_option("--svg", options.svg, "Draw it into this file instead")->type_name("FILE");
  verb.add_option("--png", options.png, "The same as PNG; needs rsvg-convert")->type_name("FILE");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
