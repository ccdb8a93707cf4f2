// The collector's main function: it takes one log and returns one Summary. The verbs in tools/ call
// it and give the Summary to a writer.
//
//   log ─ LogReader ─ Replay ─┬ Attribution   groups to rows: "1.00 MiB  load_weights ← main"
//                             ├ metrics       "device.peak_bytes": 1048576
//                             ├ phases, arenas, ledger, failures, growth
//                             └ quality       what was lost, and whether figures are exact
//                                  └──────────► Summary
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "collector/analyze/attribution.h"
#include "collector/analyze/profile.h"
#include "collector/log/log_reader.h"
#include "collector/rules/rule_book.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

struct Options;
/// A function of a room above this one that adds to the summary of `log` what it finds there. It
/// may leave the log's heap out. Returns whether that took work.
using Complete = bool (*)(Summary& summary, LogReader& log, const Options& options,
                          const Progress& progress);

/// As Options::top, for tables that must be whole.
inline constexpr size_t kAllRows = SIZE_MAX;

struct Options {
  Reading reading;
  size_t top = 10;              ///< rows of each table
  GroupBy by = GroupBy::kSite;  ///< what the rows of peaks are
  bool stacks = true;           ///< fill Holder::stack, which the JSON shows
  /// False: of the tables only what the first screen shows. It has none of the phases that
  /// libraries mark for themselves, of which XLA marks tens of thousands, and no rows of the host's
  /// if a GPU was used.
  bool all_tables = true;
  /// The process ends when it has shown the summary, so memory that was used for it is not freed:
  /// freeing it would take a twentieth of the whole time.
  bool process_ends = false;
  /// For reports that show Summary::lowering. analyze() calls it for a log that it opens itself.
  Complete complete = nullptr;
};

/// Reads the whole log. It may be damaged, cut off or still being written: Summary::quality then
/// says what is lost. Throws LogError if there is nothing to be read.
Summary analyze(const std::string& path, const Options& options = {},
                const Progress& progress = {});
/// The same for an open log. `path` is how the summary names it. `observer` sees the replay.
Summary analyze(const LogReader& log, const std::string& path, const Options& options,
                const Progress& progress = {}, ReplayObserver* observer = nullptr);

/// What the log's first pages tell of the run: all but its duration.
RunSummary run_of(const LogReader& log);
/// From the log's start to its process's end, or to the last event if the end is not known.
int64_t duration_ns(const LogReader& log, const Replay& replay);

/// The summary of a log that is replayed already.
Summary summarize(Profile& profile, const Options& options = {});

// Makes a Summary from a log, or from the JSON that `gpupeak report --json` wrote of one. diff and
// check take either, so that a baseline need not keep the log.

/// Whether a file begins like JSON. No log does.
bool begins_like_json(const std::string& path);

/// Decides by the file's content. `options` are for logs: what a JSON lists was decided when it was
/// written. Throws LogError for a file that is neither, UsageError if rows are needed and the
/// JSON's are not those of `options.by`.
Summary load_summary(const std::string& path, const Options& options = {},
                     const Progress& progress = {});

/// Reads the JSON. `name` is for messages. Fields that are missing are not measured, or empty.
/// Throws LogError.
Summary summary_from_json(std::string_view text, const std::string& name,
                          const Sanitizer& sanitizer = {});

}  // namespace gpupeak::collector
