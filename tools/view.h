// What the verbs that show a view of one log share.
#pragma once

#include <functional>
#include <ostream>

#include "collector/analyze/profile.h"
#include "collector/text/text_format.h"
#include "command_line.h"

namespace gpupeak::tools {

struct ViewOptions {
  std::string log;
  std::string scope;  ///< "device:0", "host/heap" …; empty: the verb's own choice
  std::string out;    ///< file; empty: standard output
  std::string color = "auto";
  bool json = false;
  bool strict = false;
  collector::Reading reading;
};
void add_view_options(CLI::App& verb, ViewOptions& options);

/// Of `tree` and `flame`.
struct TreeOptions : ViewOptions {
  double min_percent = 1;
  uint32_t depth = 0;  ///< 0: all
};
void add_tree_options(CLI::App& verb, TreeOptions& options);

/// Of `leaks` and `temporary`.
struct SitesOptions : ViewOptions {
  size_t top = 20;
};

/// Replays the log and has `text` or `json` write to standard output. Returns the exit code.
int show_view(const ViewOptions& options,
              const std::function<void(collector::Profile&, std::ostream&,
                                       const collector::TextStyle&)>& text,
              const std::function<void(collector::Profile&, std::ostream&)>& json);

}  // namespace gpupeak::tools
