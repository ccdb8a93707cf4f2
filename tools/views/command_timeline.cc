#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <functional>
#include <ostream>
#include <stdexcept>
#include <string>

#include "collector/text/error.h"
#include "collector/timeline/time_series.h"
#include "collector/views/timeline.h"
#include "tools/commands.h"
#include "tools/gates/strict.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
#include "tools/shared/terminal.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

// Pictures as PNG, through librsvg's command: linking librsvg would triple the size of an
// installation.

/// Runs a command. Returns its exit code; -1 if there is no such command.
int run(const std::array<const char*, 6>& words) {
  pid_t child = 0;
  std::array<char*, 6> arguments{};
  for (size_t i = 0; i < words.size(); ++i) arguments[i] = const_cast<char*>(words[i]);
  const int error = posix_spawnp(&child, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (error == ENOENT) return -1;
  if (error != 0) throw std::runtime_error(fmt::format("cannot run {}", words[0]));
  const std::optional<int> status = wait_for_child(child);
  return status && WIFEXITED(*status) ? WEXITSTATUS(*status) : 1;
}

/// Has `rsvg-convert` turn the SVG that `svg` writes into a PNG. Throws std::runtime_error, which
/// says what to install if the command is missing.
void write_png(const std::string& path, const std::function<void(std::ostream&)>& svg) {
  replace_file(path, [&](const std::string& fresh) {
    const std::string drawing = fresh + ".svg";
    write_output(drawing, svg);
    const int code =
        run({"rsvg-convert", "--zoom=2", "--output", fresh.c_str(), drawing.c_str(), nullptr});
    unlink(drawing.c_str());
    if (code == -1) {
      throw std::runtime_error(
          "--png needs the command rsvg-convert (Debian: apt-get install librsvg2-bin); --svg "
          "needs nothing");
    }
    if (code != 0) throw std::runtime_error(fmt::format("cannot write {}", path));
  });
}

struct TimelineOptions : ViewOptions {
  std::string svg, png;  ///< files; with one of them, no text
  bool csv = false;
  size_t height = 8;  ///< rows of a chart
};

struct TimelineOfLog {
  collector::TimeSeries times;
  collector::Profile profile;

  TimelineOfLog(const std::string& log, const collector::Progress& progress,
                const TimelineOptions& options)
      : profile(log, progress, &times, reading_for(options)) {
    times.finish(profile.replay());
  }
};

int draw(const TimelineOptions& options) {
  if (options.logs.size() > 1) throw collector::UsageError("--csv, --svg and --png take one log");
  for (const std::string& out : {options.svg, options.png, options.out})
    require_output(out, options.logs);
  ProgressBar bar;
  const TimelineOfLog of_log(process_log(options.logs.front(), options.process), bar.callback(),
                             options);
  bar.clear();
  const auto svg = [&](std::ostream& out) {
    collector::write_timeline_svg(of_log.profile, of_log.times, options.scope, out);
  };
  if (options.csv) {
    write_output(options.out, [&](std::ostream& out) {
      collector::write_timeline_csv(of_log.profile, of_log.times, options.scope, out);
    });
  }
  if (!options.svg.empty()) write_output(options.svg, svg);
  if (!options.png.empty()) write_png(options.png, svg);
  for (const std::string& path : {options.svg, options.png}) say_written(path);
  return strict_code(options.strict, is_whole(of_log.profile.quality()));
}

int timeline(const TimelineOptions& options) {
  if (options.csv || !options.svg.empty() || !options.png.empty()) return draw(options);
  return show_views(options, [&](const std::string& log, const collector::Progress& progress) {
    auto of_log = std::make_shared<TimelineOfLog>(log, progress, options);
    return LogView{std::shared_ptr<const collector::Profile>(of_log, &of_log->profile),
                   [of_log, &options](std::ostream& out, const collector::TextStyle& style) {
                     collector::write_timeline(of_log->profile, of_log->times, options.scope,
                                               options.height, out, style);
                   },
                   [of_log, &options](std::ostream& out) {
                     collector::write_timeline_json(of_log->profile, of_log->times, options.scope,
                                                    out);
                   }};
  });
}

}  // namespace

void add_timeline(CommandLine& line) {
  auto [verb, options] = line.add("timeline", "Memory over time, as a chart", timeline);
  add_view_options(verb, options);
  verb.add_option("--height", options.height, "Rows of a chart")
      ->check(between(1, 100))
      ->capture_default_str();
  verb.add_option("--svg", options.svg, "Draw it into this file instead")
      ->type_name("FILE")
      ->excludes("--json");
  verb.add_option("--png", options.png, "The same as PNG; needs rsvg-convert")
      ->type_name("FILE")
      ->excludes("--json");
  verb.add_flag("--csv", options.csv, "Every curve as CSV: its least and most in each stretch")
      ->excludes("--json");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
