// What writes a Summary. Like all writers of this folder these only format, and compute nothing.
#pragma once

#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "collector/analyze/analyze.h"
#include "collector/analyze/profile.h"
#include "collector/log/log_head.h"
#include "collector/log/log_reader.h"
#include "collector/merge/merge.h"
#include "collector/summary/diff.h"
#include "collector/summary/gate.h"
#include "collector/summary/summary.h"
#include "collector/text/text_format.h"
#include "collector/timeline/instants.h"
#include "collector/timeline/last_use.h"
#include "collector/timeline/time_series.h"
#include "collector/write/json_values.h"

namespace gpupeak::collector {

// The page as the build makes it from collector/page.

/// Empty if this program was built without the page. Its data goes where kDataMark stands.
std::string_view page_template();

inline constexpr std::string_view kDataMark = "\"@GPUPEAK_DATA@\"";

// Two runs compared, for people and as JSON (docs/diff.md). `gpupeak diff` calls it.

/// `top`: rows of each table; a last row has the sum of the others. JSON has all rows.
void write_diff(const Summary& a, const Summary& b, size_t top, std::ostream& out,
                const ViewStyle& style = {});

// Two runs compared in a few lines of Markdown, for a comment on a change. `gpupeak diff
// --markdown` calls it.

/// The peaks of both runs; under each peak that changed, the `top` sites that changed most.
void write_diff_markdown(const Summary& a, const Summary& b, size_t top, std::ostream& out);

// The results of gates, for people and for CI: text, JSON, JUnit's XML, Markdown. `gpupeak check`
// calls it.

bool all_passed(const std::vector<GateResult>& results);

/// JSON: schema gpupeak.check/1 (docs/json.md).
void write_gates(const Summary& summary, const std::vector<GateResult>& results, std::ostream& out,
                 const ViewStyle& style = {});
/// Each gate is a test case.
void write_junit(const Summary& summary, const std::vector<GateResult>& results, std::ostream& out);
/// A section with a table, as GitHub shows it; names are escaped.
void write_markdown(const Summary& summary, const std::vector<GateResult>& results,
                    std::ostream& out);

// The metrics of runs alone, in the forms that CI services and dashboards read. `gpupeak metrics`
// calls it; docs/ci.md says which program reads which form.

/// Their names.
std::vector<std::string> metrics_formats();

struct MetricsChoice {
  std::vector<std::string> names;             ///< empty: all
  std::string benchmark;                      ///< empty: the program's name
  std::map<std::string, std::string> labels;  ///< added to those of the run
};

/// `format`: one of metrics_formats(). A metric that was not measured is null in JSON lines;
/// formats without null leave it out. Throws UsageError for a name that a run does not have.
void write_metrics(const std::vector<Summary>& runs, std::string_view format,
                   const MetricsChoice& choice, std::ostream& out);

/// The program's name without its folder, or the log's name if the log has no command.
std::string program_of(const Summary& summary);

// What several processes had together, for people and as JSON (docs/merge.md). `gpupeak merge`
// calls it.

/// One screen for any number of processes: the largest of each kind. JSON has everything.
void write_merge(const Merged& merged, std::ostream& out, const ViewStyle& style = {});

// A log in readable form, one definition or event a line, in the order in which they are replayed:
// for looking at a log with a surprising report. `gpupeak export events` calls it.

void write_dump(const LogReader& log, std::ostream& out, const Progress& progress = {});

// The holders of every peak as CSV (RFC 4180), one row each. `gpupeak report --csv` calls it.

void write_csv(const Summary& summary, std::ostream& out);

// The summary as JSON, schema gpupeak.summary/1. `gpupeak report --json` calls it.

/// The whole summary.
nlohmann::ordered_json summary_json(const Summary& summary);
void write_json(const Summary& summary, std::ostream& out);

// The phases of a run as one wide table, host and device side by side.

/// JSON: the summary's phases, schema gpupeak.phases/1. CSV: alike instances are one row; bytes and
/// nanoseconds, empty if not measured.
void write_phases(const Summary& summary, std::ostream& out, const ViewStyle& style);

// The few lines at the end of a run: at most kShortLines, one more for each further GPU, and one
// for each row of a run of several processes. `gpupeak run` prints them; if the library was
// preloaded without it, the library does, through `gpupeak report --short`.

inline constexpr size_t kShortLines = 14;
inline constexpr size_t kMaxScriptLines = 8;  ///< one for each GPU

/// Contains the lines that scripts look for: "Peak device memory (GPU N): B bytes" for each device
/// that was used, and "Peak host heap: B bytes" if it was measured ("Peak host heap (usable): …" if
/// it was only counted).
void write_short(const Summary& summary, std::ostream& out, const TextStyle& style = {});

// The report as text: by default one screen, at most kReportLines, or all of it. `gpupeak report`
// calls it.
//
// in    a Summary: plain values, and the size of each
// out   lines, no wider than the terminal
//
//   peak of device:0, 1048576 bytes; one holder, "load_weights ← main"
//     → "1.00 MiB 100.0 1 load_weights ← main"

inline constexpr size_t kReportLines = 50;

enum class ReportLength { kOneScreen, kFull };

void write_text(const Summary& summary, std::ostream& out, const TextStyle& style = {},
                ReportLength length = ReportLength::kOneScreen);

// The figures that the library counted itself, which need no replay. `run` and `report --short`
// show them if the log cannot be read.

/// `path`: the log's name as it is shown.
void write_counters(const LogHead& log, const std::string& path, std::ostream& out,
                    const TextStyle& style);

// One self-contained page about one log or several: it opens from a mail, without a network. The
// build makes the page from collector/page, with the libraries that draw its charts, and puts it
// into this program. Here it gets its data.

/// What a page needs of a log besides the profile.
struct PageLog {
  Instants instants;
  ArenaHistory arenas;
  std::optional<LastUses> uses;  ///< none: the log has no uses
  std::vector<Ages> ages;        ///< at each sum's peak
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
