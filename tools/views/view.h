// What the verbs that show a view of a log have in common.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/run/run_logs.h"
#include "collector/text/text_format.h"
#include "collector/timeline/moment.h"
#include "tools/shared/command_line.h"
#include "tools/shared/output.h"
#include "tools/shared/runs.h"

namespace gpupeak::tools {

struct ViewOptions : OutputOptions {
  std::vector<std::string> logs;
  std::string process;  ///< of a run; empty: the one that held the most
  std::string scope;    ///< "device:0", "host/heap" …; empty: the verb's own choice
};
void add_view_options(CLI::App& verb, ViewOptions& options);

/// Who held the memory of each device and of the host, at each of these moments.
std::vector<std::vector<collector::Held>> live_at(const collector::Profile& profile,
                                                  const std::vector<std::string>& moments);

/// How to read a log for the scope: without the heap if it is a scope of devices.
collector::Reading reading_for(const ViewOptions& options);

/// What a verb shows of a log, read by this constructor; verbs that need more have a class of their
/// own.
struct ProfileOfLog {
  collector::Profile profile;
  ProfileOfLog(const std::string& log, const collector::Progress& progress,
               const ViewOptions& options)
      : profile(log, progress, nullptr, reading_for(options)) {}
};

/// Reads each log as an OfLog, then writes them in turn by write(OfLog&, out, style); JSON of
/// several is an array. Returns the exit code.
template <class OfLog, class Options, class Write>
int show_views(const Options& options, const Write& write) {
  require_output(options.out, options.logs);
  std::vector<std::unique_ptr<OfLog>> views;
  {
    ProgressBar bar;
    for (const std::string& log : process_logs(options.logs, options.process))
      views.push_back(std::make_unique<OfLog>(log, bar.callback(), options));
  }
  write_in_turn(options, views.size(), [&](auto& out, auto& style, size_t i) {
    const collector::Profile& profile = views[i]->profile;
    if (views.size() > 1 && !style.is_json())
      out << bold(profile.definitions().shown(profile.path()), style) << '\n';
    write(*views[i], out, style);
  });
  return strict_code(options.strict,
                     are_whole(views, [](const auto& view) { return view->profile.quality(); }));
}

/// The same by write(Profile&, out, style).
template <class Write>
int show_view(const ViewOptions& options, const Write& write) {
  return show_views<ProfileOfLog>(options, [&](ProfileOfLog& view, auto& out, auto& style) {
    write(view.profile, out, style);
  });
}

// The page about one log or several, for the verbs that write one.

struct PageTab {
  std::string log;
  /// The run that the log stands for, as the log of the process that held the most does. The page
  /// then says what `report` says of the run.
  std::optional<collector::RunLogs> run = {};
};

/// For each run: the process that held the most, then the other processes that used a GPU.
std::vector<PageTab> tabs_of(const std::vector<std::string>& names, const std::string& process);

/// Reads the logs one after the other and writes the page to `path`. `with_source`: the page has
/// the source lines of its calls. Returns whether the runs are whole (runs.h).
bool write_page(const std::vector<PageTab>& tabs, const collector::Reading& reading,
                bool with_source, const std::string& path);

}  // namespace gpupeak::tools
