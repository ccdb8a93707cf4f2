// One self-contained page about one log or several: it opens from a mail, without a network. The
// page itself, with the libraries that draw its charts, is made by the build from collector/page
// and lies in this program; here it is given its data.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/analyze/profile.h"
#include "collector/timeline/arena_history.h"
#include "collector/timeline/instants.h"
#include "collector/timeline/last_use.h"
#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// What is read of a log for its page.
struct PageLog {
  Instants instants;
  ArenaHistory arenas;
  std::optional<LastUses> uses;  ///< none: the log has none
  /// As the terminal has it, if the log stands for a whole run: the page begins with what is said
  /// of all its processes.
  std::optional<Summary> run = {};
};
/// Replays the log some more times.
PageLog read_for_page(Profile& profile, const TimeSeries& times, const Progress& progress = {});

/// Everything that a page shows of one log, as JSON. `with_source`: with lines of source.
/// `complete`: as in Options.
std::string page_data(Profile& profile, const TimeSeries& times, const PageLog& log,
                      bool with_source, Complete complete = nullptr);

/// `runs`: page_data() of each. Throws std::runtime_error if this program was built without the
/// page.
void write_html(const std::vector<std::string>& runs, const std::string& tool_version,
                std::ostream& out);

/// A page of another kind. `list`: the key under which its data have the `items`, each of them JSON
/// made by page_text(). Throws as write_html() does.
void write_page(std::string_view list, const std::vector<std::string>& items,
                const std::string& tool_version, std::ostream& out);
/// The JSON as one line. Bytes that are no UTF-8 are replaced.
std::string page_text(const Json& json);

/// Whether this program was built with the page.
bool has_page();
/// Throws what write_html() would throw. For callers that read a long log first.
void require_page();

}  // namespace gpupeak::collector
