// One self-contained page about one log or several: it opens from a mail, without a network. The
// build makes the page from collector/page, with the libraries that draw its charts, and puts it
// into this program. Here it gets its data.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/analyze/profile.h"
#include "collector/timeline/instants.h"
#include "collector/timeline/last_use.h"
#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

/// What a page needs of a log besides the profile.
struct PageLog {
  Instants instants;
  ArenaHistory arenas;
  std::optional<LastUses> uses;  ///< none: the log has no uses
  /// The summary that the terminal shows, if the log stands for a whole run: the page begins with
  /// what is said of all its processes.
  std::optional<Summary> run = {};
};
/// Replays the log several times more.
PageLog read_for_page(Profile& profile, const TimeSeries& times, const Progress& progress = {});

/// Everything that a page shows of one log, as JSON. `with_source`: also lines of source.
/// `complete`: as in Options.
std::string page_data(Profile& profile, const TimeSeries& times, const PageLog& log,
                      bool with_source, Complete complete = nullptr);

/// Writes a page whose data have the `items` under the key `list`: for "runs" page_data() of each,
/// for others JSON made by page_text(). Throws std::runtime_error if this program was built without
/// the page.
void write_page(std::string_view list, const std::vector<std::string>& items,
                const std::string& tool_version, std::ostream& out);
/// The JSON as one line. Bytes that are not UTF-8 are replaced.
std::string page_text(const Json& json);

/// Whether this program was built with the page.
bool has_page();
/// Throws what write_page() would throw. For callers that read a long log first.
void require_page();

}  // namespace gpupeak::collector
