#include "collector/analyze/analyze.h"
#include "collector/views/views.h"
#include "collector/write/writers.h"
#include "tools/commands.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"
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
                    int (*run)(const SitesOptions&)) {
  auto [verb, options] = line.add(name, description, run);
  add_view_options(verb, options);
  add_top(verb, options.top, "Rows of each table");
  add_reading(verb, options.reading);
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
  add_reading(verb, options.reading);
}

void add_leaks(CommandLine& line) {
  add_sites_verb(line, "leaks", "What was live at exit, by site",
                 show_sites<collector::write_leaks>);
}

void add_tags(CommandLine& line) {
  auto [verb, options] =
      line.add("tags", "What the peak's memory was for, by layer and by data structure", tags);
  add_view_options(verb, options);
  add_moment(verb, options.at);
  verb.add_flag("--csv", options.csv, "Lines tag,MiB, as MXNet's memory profiler has them")
      ->excludes("--json");
  add_top(verb, options.top, "Entries listed one by one");
  add_reading(verb, options.reading);
}

void add_temporary(CommandLine& line) {
  add_sites_verb(line, "temporary", "Blocks that were freed at once, by site",
                 show_sites<collector::write_temporary>);
}

void add_tree(CommandLine& line) {
  auto [verb, options] = line.add("tree", "Who held the memory at the peak, as a call tree", tree);
  add_view_options(verb, options);
  verb.add_flag("--flame", options.as_flame, "As a flame graph, the outermost call on top");
  add_moment(verb, options.at);
  add_number(verb, "--min-percent", options.min_percent, 0, 100,
             "Calls that hold less are one row");
  verb.add_option("--depth", options.depth, "How many calls down; 0: all")->capture_default_str();
  add_reading(verb, options.reading);
}

namespace {

int phases(const ViewOptions& options) {
  require_one_log_for_csv(options.csv, options.logs);
  require_output(options.out, options.logs);
  const collector::Options analysis{.reading = options.reading, .top = 1, .stacks = false};
  const std::vector<collector::Summary> summaries =
      analyze_all(runs_of(process_logs(options.logs, options.process), ""), analysis,
                  collector::RunDepth::kGpus);
  write_in_turn(options, summaries.size(), [&](auto& out, auto& style, size_t i) {
    if (options.logs.size() > 1 && !style.is_json())
      out << bold(summaries[i].log_path, style) << '\n';
    collector::write_phases(summaries[i], out, style);
  });
  return strict_code(options.strict, are_whole(summaries));
}

}  // namespace

void add_phases(CommandLine& line) {
  auto [verb, options] =
      line.add("phases", "The phases and their repetitions, host beside device", phases);
  add_logs(verb, options.logs);
  add_process(verb, options.process);
  verb.add_flag("--csv", options.csv, "As CSV, in bytes");
  verb.add_flag("--json", options.json, "As JSON")->excludes("--csv");
  add_strict(verb, options.strict);
  add_out(verb, options.out);
  add_text_and_reading(verb, options);
}

}  // namespace gpupeak::tools
