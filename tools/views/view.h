// What the verbs that show a view of a log have in common.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
#include "collector/run/run_logs.h"
#include "collector/text/text_format.h"
#include "collector/timeline/moment.h"
#include "tools/shared/command_line.h"

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

/// What a verb shows of a log that has been read.
struct LogView {
  std::shared_ptr<const collector::Profile> profile;
  std::function<void(std::ostream&, const collector::TextStyle&)> text;
  std::function<void(std::ostream&)> json;
};
/// How to read a log for the scope: without the heap if it is a scope of devices.
collector::Reading reading_for(const ViewOptions& options);

/// Has `read` replay each log, then writes them in turn; JSON of several is an array. Returns the
/// exit code.
int show_views(
    const ViewOptions& options,
    const std::function<LogView(const std::string& log, const collector::Progress&)>& read);

/// The same for views that need only each log's profile.
int show_view(const ViewOptions& options,
              const std::function<void(collector::Profile&, std::ostream&,
                                       const collector::TextStyle&)>& text,
              const std::function<void(collector::Profile&, std::ostream&)>& json);

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
