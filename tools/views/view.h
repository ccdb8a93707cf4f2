// What the verbs that show a view of a log have in common.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "collector/analyze/profile.h"
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

/// Options of views of the peak that may show another moment instead.
struct MomentOptions : ViewOptions {
  std::string at = "peak";  ///< as collector::held_at() takes it
};
void add_moment(CLI::App& verb, std::string& at);
/// Who held the scope at that moment.
collector::Held held_by(const collector::Profile& profile, const MomentOptions& options);

/// Who held the memory of each device and of the host, at each of these moments.
std::vector<std::vector<collector::Held>> live_at(const collector::Profile& profile,
                                                  const std::vector<std::string>& moments);

/// Options of `tree` and `flame`.
struct TreeOptions : MomentOptions {
  double min_percent = 1;
  uint32_t depth = 0;  ///< 0: all
};
void add_tree_options(CLI::App& verb, TreeOptions& options);

/// Options of `leaks` and `temporary`.
struct SitesOptions : ViewOptions {
  size_t top = 20;
};

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

}  // namespace gpupeak::tools
