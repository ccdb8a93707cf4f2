#include <cmath>

#include "collector/analyze/analyze.h"
#include "collector/text/error.h"
#include "collector/text/sanitize.h"
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

/// A call tree that `write` shows.
template <decltype(collector::write_tree)& write>
int show_calls(const TreeOptions& options) {
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    write(profile, held_by(profile, options), {options.min_percent, options.depth}, out, style);
  });
}

/// The same for a table of sites.
template <decltype(collector::write_leaks)& write>
int show_sites(const SitesOptions& options) {
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    write(profile, options.scope, options.top, out, style);
  });
}

struct HeldOptions : SitesOptions {
  std::vector<std::string> within, at;
};

/// "17.9", "+17.9" or "17.9s": seconds since the log's start. What else there is, find_moment()
/// knows.
collector::Moment moment_of(const collector::Profile& profile, collector::ScopeId scope,
                            const std::string& text) {
  std::string_view figure = text;
  if (figure.starts_with('+')) figure.remove_prefix(1);
  if (figure.ends_with('s')) figure.remove_suffix(1);
  const double seconds = collector::number_of(figure).value_or(-1);
  if (seconds >= 0 && seconds < 1e9) return {"", std::llround(seconds * 1e9)};
  const collector::NamedMoment found = collector::find_moment(profile, scope, text);
  if (found.events == found.kEnd || found.events == 0) return {"", found.time_ns};
  return {"", {}, found.events - 1};
}

int held(const HeldOptions& options) {
  return show_view(options, [&](auto& profile, auto& out, auto& style) {
    const collector::ScopeId scope = profile.scope(options.scope);
    std::vector<collector::Moment> moments;
    for (const std::string& name : options.within) moments.push_back({name, {}});
    for (const std::string& at : options.at) moments.push_back(moment_of(profile, scope, at));
    if (moments.empty()) moments.emplace_back();
    collector::write_held(profile, scope, moments, options.top, out, style);
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

void add_tree_verb(CommandLine& line, const char* name, const char* description,
                   int (*run)(const TreeOptions&)) {
  auto [verb, options] = line.add(name, description, run);
  add_view_options(verb, options);
  add_moment(verb, options.at);
  add_number(verb, "--min-percent", options.min_percent, 0, 100,
             "Calls that hold less are one row");
  verb.add_option("--depth", options.depth, "How many calls down; 0: all")->capture_default_str();
  add_reading(verb, options.reading);
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

void add_flame(CommandLine& line) {
  add_tree_verb(line, "flame", "The same as a flame graph", show_calls<collector::write_flame>);
}

void add_held(CommandLine& line) {
  auto [verb, options] =
      line.add("held", "Who held the memory at a moment, or within a phase", held);
  add_list(verb, "--within", options.within, "PHASE",
           "The highest while a phase of this name was open; may be repeated");
  add_list(verb, "--at", options.at, "MOMENT",
           "Seconds since the log's start, a mark, a phase (its highest), PHASE.end or end; may be "
           "repeated");
  add_view_options(verb, options);
  add_top(verb, options.top, "Rows of each table");
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
  add_tree_verb(line, "tree", "Who held the memory at the peak, as a call tree",
                show_calls<collector::write_tree>);
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
