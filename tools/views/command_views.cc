#include <fmt/format.h>
#include <unistd.h>

#include <functional>
#include <ostream>
#include <stdexcept>
#include <tuple>

#include "collector/analyze/analyze.h"
#include "collector/fit/what_if.h"
#include "collector/text/error.h"
#include "collector/timeline/time_series.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/child.h"
#include "tools/views/view.h"

namespace gpupeak::tools {
namespace {

/// Options of views of the peak that may show another moment instead.
struct MomentOptions : ViewOptions {
  std::string at = "peak";  ///< as collector::held_at() takes it
};

struct TreeOptions : MomentOptions {
  bool as_flame = false;
  double min_percent = 1;
  uint32_t depth = 0;  ///< 0: all
};

/// Options of `leaks` and `temporary`.
struct SitesOptions : ViewOptions {
  size_t top = 20;
};

void add_moment(CLI::App& verb, std::string& at) {
  add_value(verb, "--at", at, "MOMENT",
            "Another moment: +1.25s, a mark, a phase (its highest), PHASE.end, end")
      ->capture_default_str();
}

/// Who held the scope at that moment.
collector::Held held_by(const collector::Profile& profile, const MomentOptions& options) {
  return collector::held_at(profile, profile.scope(options.scope), options.at);
}

struct ArenasOptions : ViewOptions {
  std::string at = "peak";
  size_t top = 20;
};

/// One log's arenas at the instant that is asked for.
struct ArenasOfLog {
  collector::ArenaMoments moments;
  collector::Profile profile;
  const collector::ArenaInstant instant;
  const std::vector<collector::ArenaState> states;

  ArenasOfLog(const std::string& log, const collector::Progress& progress,
              const ArenasOptions& options)
      : profile(log, progress, &moments, options.reading),
        instant(collector::arena_instant(profile, moments, options.at)),
        states(collector::arenas_at(profile, instant, progress)) {}
};

int arenas(const ArenasOptions& options) {
  return show_views<ArenasOfLog>(options, [&](ArenasOfLog& log, auto& out, auto& style) {
    collector::write_arenas(log.profile, log.moments, log.instant, log.states, options.top, out,
                            style);
  });
}

int tree(const TreeOptions& options) {
  const auto write = options.as_flame ? collector::write_flame : collector::write_tree;
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    write(profile, held_by(profile, options), {options.min_percent, options.depth}, out, style);
  });
}

/// A table of sites that `write` shows.
template <decltype(collector::write_leaks)& write>
int show_sites(const SitesOptions& options) {
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    write(profile, options.scope, options.top, out, style);
  });
}

struct TagsOptions : MomentOptions {
  size_t top = 20;
};

int tags(const TagsOptions& options) {
  require_one_log_for_csv(options.csv, options.logs);
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    collector::write_tags(profile, held_by(profile, options), options.top, out, style);
  });
}

void add_sites_verb(CommandLine& line, const char* name, const char* description,
                    int (*run)(const SitesOptions&), const char* examples) {
  auto [verb, options] = line.add(name, description, run, examples);
  add_view_options(verb, options);
  add_top(verb, options.top, "Rows of each table");
}

int phases(const ViewOptions& options) {
  require_one_log_for_csv(options.csv, options.logs);
  require_output(options.out, options.logs);
  const collector::Options analysis{.reading = options.reading, .top = 1, .stacks = false};
  const std::vector<collector::Summary> summaries =
      analyze_all(collector::runs_of(process_logs(options.logs, options.process)), analysis,
                  collector::RunDepth::kGpus);
  write_in_turn(options, summaries.size(), [&](auto& out, auto& style, size_t i) {
    if (options.logs.size() > 1 && !style.is_json())
      out << bold(summaries[i].log_path, style) << '\n';
    collector::write_phases(summaries[i], out, style);
  });
  return strict_code(options.strict, are_whole(summaries));
}

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
    if (!options.by.empty())
      parts = collector::stacked_over_time(profile, times, collector::parse_group_by(options.by),
                                           progress);
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

void add_arenas(CommandLine& line) {
  auto [verb, options] = line.add(
      "arenas", "What PyTorch's and other sub-allocators had in use and idle, by segment", arenas);
  verb.alias("pools");
  add_view_options(verb, options);
  add_value(verb, "--at", options.at, "MOMENT",
            "peak, end, +1.25s, a mark, a phase (the highest), PHASE.end")
      ->capture_default_str();
  add_top(verb, options.top, "Sites and segments of each pool");
}

void add_leaks(CommandLine& line) {
  add_sites_verb(line, "leaks", "What was live at exit, by site",
                 show_sites<collector::write_leaks>, R"(  gpupeak leaks bert.gplog
  gpupeak leaks --scope host/heap bert.gplog)");
}

void add_tags(CommandLine& line) {
  auto [verb, options] =
      line.add("tags", "What the peak's memory was for, by layer and by data structure", tags,
               R"(  gpupeak tags --tag 'weights=*SaveInitializedTensors' bert.gplog
  gpupeak tags --rules pytorch bert.gplog)");
  add_view_options(verb, options);
  add_moment(verb, options.at);
  verb.add_flag("--csv", options.csv, "Lines tag,MiB, as MXNet's memory profiler has them")
      ->excludes("--json");
  add_top(verb, options.top, "Entries listed one by one");
}

void add_temporary(CommandLine& line) {
  add_sites_verb(line, "temporary", "Blocks that were freed at once, by site",
                 show_sites<collector::write_temporary>, "  gpupeak temporary --top 5 bert.gplog");
}

void add_tree(CommandLine& line) {
  auto [verb, options] = line.add("tree", "Who held the memory at the peak, as a call tree", tree,
                                  R"(  gpupeak tree bert.gplog
  gpupeak tree --scope host --min-percent 5 bert.gplog
  gpupeak tree --flame --depth 12 bert.gplog)");
  add_view_options(verb, options);
  verb.add_flag("--flame", options.as_flame, "As a flame graph, the outermost call on top");
  add_moment(verb, options.at);
  add_number(verb, "--min-percent", options.min_percent, 0, 100,
             "Calls that hold less are one row");
  verb.add_option("--depth", options.depth, "How many calls down; 0: all")->capture_default_str();
}

void add_phases(CommandLine& line) {
  auto [verb, options] =
      line.add("phases", "The phases and their repetitions, host beside device", phases,
               R"(  gpupeak phases bert.gplog
  gpupeak phases --rules onnxruntime bert.gplog)");
  add_logs(verb, options.logs);
  add_process(verb, options.process);
  verb.add_flag("--csv", options.csv, "As CSV, in bytes");
  verb.add_flag("--json", options.json, "As JSON")->excludes("--csv");
  add_strict(verb, options.strict);
  add_output(verb, options);
}

void add_view_options(CLI::App& verb, ViewOptions& options) {
  add_logs(verb, options.logs);
  add_process(verb, options.process);
  add_scope(verb, options.scope);
  verb.add_flag("--json", options.json, "As JSON");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_text_and_reading(verb, options);
}

std::vector<std::vector<collector::Held>> live_at(const collector::Profile& profile,
                                                  const std::vector<std::string>& moments) {
  const collector::ScopeId usual = profile.scope("");
  const std::vector<collector::ScopeId> sides = collector::sides(profile);
  const auto found = collector::list_of(moments, [&](const std::string& moment) {
    return moment == "peak" ? collector::peak_moment(profile, usual)
                            : collector::find_moment(profile, usual, moment);
  });
  return collector::held_at(profile, sides, found);
}

collector::Reading reading_for(const ViewOptions& options) {
  collector::Reading reading = options.reading;
  if (options.scope.starts_with("device")) reading.heap = collector::HeapReading::kNone;
  return reading;
}

std::vector<PageTab> tabs_of(const std::vector<std::string>& names, const std::string& process) {
  std::vector<PageTab> tabs;
  for (collector::RunLogs& run : collector::runs_of(names, process)) {
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
  require_output(path, collector::list_of(tabs, &PageTab::log));
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

void add_timeline(CommandLine& line) {
  auto [verb, options] = line.add("timeline", "Memory over time, as a chart", timeline,
                                  R"(  gpupeak timeline bert.gplog
  gpupeak timeline --svg bert.svg bert.gplog
  gpupeak timeline --by tag --size column --pdf bert.pdf bert.gplog)");
  add_view_options(verb, options);
  add_number(verb, "--height", options.height, 1, 100, "Rows of a chart");
  std::vector<std::string> ways;
  ways.reserve(std::size(collector::kStackedBy));
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
}

}  // namespace gpupeak::tools
