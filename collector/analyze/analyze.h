// The collector's front door: one log in, one Summary out. The verbs in tools/ call it and hand the
// Summary to a writer.
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

#include "collector/analyze/attribution.h"
#include "collector/analyze/profile.h"
#include "collector/log/event_stream.h"
#include "collector/rules/reading.h"
#include "collector/summary/summary.h"

namespace gpupeak::collector {

struct Options;
/// Adds to the summary of `log` what a room above this one finds in it. Whether that took work.
using Complete = bool (*)(Summary& summary, const std::string& log, const Options& options,
                          const Progress& progress);

/// For tables that must be whole.
inline constexpr size_t kAllRows = SIZE_MAX;

struct Options {
  Reading reading;
  size_t top = 10;              ///< rows a table
  GroupBy by = GroupBy::kSite;  ///< what the rows of peaks are
  bool stacks = true;           ///< fill Holder::stack: the JSON shows them
  /// A large log's summary is kept for the next time (kept_summary.h), where that is looked for.
  bool keep = true;
  /// The process ends when it has shown the summary. What was read and counted for it is then left
  /// to the system: to take it apart piece by piece takes a twentieth of the time in all.
  bool process_ends = false;
  /// Of reports that show Summary::lowering: kept_or_analyzed() calls it, and keeps the summary
  /// with what it has added.
  Complete complete = nullptr;
};

/// Reads the whole log, which may be damaged, cut off or still being written: what is lost is said
/// in Summary::quality. Throws LogError if there is nothing to be read.
Summary analyze(const std::string& path, const Options& options = {},
                const Progress& progress = {});
/// The same of a log that is open; `path` is what the summary calls it. `observer` looks on.
Summary analyze(const LogReader& log, const std::string& path, const Options& options,
                const Progress& progress = {}, ReplayObserver* observer = nullptr);

/// From the log's start to its process's end, or to the last event where that is not known.
int64_t duration_ns(const LogReader& log, const Replay& replay);

/// The same of a log that is replayed already.
Summary summarize(Profile& profile, const Options& options = {});

}  // namespace gpupeak::collector
