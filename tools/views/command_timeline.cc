#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <tuple>

#include "collector/text/error.h"
#include "collector/timeline/time_series.h"
#include "collector/views/views.h"
#include "tools/commands.h"
#include "tools/shared/child.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

// Pictures as PNG and PDF, through librsvg's command: linking librsvg would triple the size of an
// installation.

/// Has `rsvg-convert` turn the SVG that `svg` writes into `format`, png or pdf. Throws
/// std::runtime_error, which says what to install if the command is missing.
void write_picture(const std::string& path, const std::string& format,
                   const std::function<void(std::ostream&)>& svg) {
  replace_file(path, [&](const std::string& fresh) {
    const std::string drawing = fresh + ".svg";
    write_output(drawing, svg);
    // A PDF has the size that the SVG says; a PNG gets twice as many pixels, for sharp letters.
    const char* const zoom = format == "png" ? "--zoom=2" : "--zoom=1";
    const int code =
        run_program({"rsvg-convert", zoom, "--format=" + format, "--output", fresh, drawing});
    unlink(drawing.c_str());
    if (code == kNotFound) {
      throw std::runtime_error(
          fmt::format("--{} needs the command rsvg-convert (Debian: apt-get install librsvg2-bin, "
                      "Fedora: dnf install librsvg2-tools); --svg needs nothing",
                      format));
    }
    if (code != 0) throw std::runtime_error(fmt::format("cannot write {}", path));
  });
}

struct TimelineOptions : ViewOptions {
  std::string by;             ///< empty: sums and their kinds
  std::string svg, pdf, png;  ///< files; with one of them, no text
  std::string size = "screen";
  bool dark = false;
  size_t height = 8;  ///< rows of a chart
};

struct TimelineOfLog {
  collector::TimeSeries times;
  collector::Profile profile;
  std::optional<collector::TimelineOf> shown;

  TimelineOfLog(const std::string& log, const collector::Progress& progress,
                const TimelineOptions& options)
      : profile(log, progress, &times, reading_for(options)) {
    times.finish(profile.replay());
    std::vector<collector::Stacked> parts;
    if (!options.by.empty()) {
      parts = collector::stacked_over_time(profile, times, collector::parse_group_by(options.by),
                                           progress);
    }
    shown.emplace(profile, times, options.scope, std::move(parts));
  }
};

int draw(const TimelineOptions& options) {
  if (options.logs.size() > 1)
    throw collector::UsageError("--csv, --svg, --pdf and --png take one log");
  for (const std::string& out : {options.svg, options.pdf, options.png, options.out})
    require_output(out, options.logs);
  ProgressBar bar;
  const TimelineOfLog of_log(process_log(options.logs.front(), options.process), bar.callback(),
                             options);
  bar.clear();
  const collector::PictureSize size = options.size == "column" ? collector::PictureSize::kColumn
                                      : options.size == "page" ? collector::PictureSize::kPage
                                                               : collector::PictureSize::kScreen;
  const auto svg = [&](std::ostream& out) {
    collector::write_timeline_svg(*of_log.shown, size, options.dark, out);
  };
  if (options.csv) {
    write_output(options.out, [&](std::ostream& out) {
      collector::write_timeline(*of_log.shown, options.height, out, collector::kAsCsv);
    });
  }
  if (!options.svg.empty()) write_output(options.svg, svg);
  if (!options.pdf.empty()) write_picture(options.pdf, "pdf", svg);
  if (!options.png.empty()) write_picture(options.png, "png", svg);
  for (const std::string& path : {options.svg, options.pdf, options.png}) say_written(path);
  return strict_code(options.strict, is_whole(of_log.profile.quality()));
}

int timeline(const TimelineOptions& options) {
  if (options.csv || !options.svg.empty() || !options.pdf.empty() || !options.png.empty())
    return draw(options);
  return show_views<TimelineOfLog>(options, [&](TimelineOfLog& log, auto& out, auto& style) {
    collector::write_timeline(*log.shown, options.height, out, style);
  });
}

}  // namespace

void add_timeline(CommandLine& line) {
  auto [verb, options] = line.add("timeline", "Memory over time, as a chart", timeline);
  add_view_options(verb, options);
  add_number(verb, "--height", options.height, 1, 100, "Rows of a chart");
  std::vector<std::string> ways;
  for (const collector::GroupBy way : collector::kStackedBy)
    ways.emplace_back(collector::group_by_name(way));
  add_choice(verb, "--by", options.by, ways,
             "Take each device and the host apart, its parts stacked");
  for (const auto& [name, file, what] :
       {std::tuple{"--svg", &options.svg, "Draw it into this file instead"},
        std::tuple{"--pdf", &options.pdf, "The same as PDF; needs rsvg-convert"},
        std::tuple{"--png", &options.png, "The same as PNG; needs rsvg-convert"}})
    add_value(verb, name, *file, "FILE", what)->excludes("--json");
  add_choice(verb, "--size", options.size, {"screen", "page", "column"},
             "Of the picture: for a screen, a paper's page or column");
  verb.add_flag("--dark", options.dark, "Draw on a dark ground");
  verb.add_flag("--csv", options.csv, "Every curve as CSV: its least and most in each stretch")
      ->excludes("--json");
  add_reading(verb, options.reading);
}

}  // namespace gpupeak::tools
