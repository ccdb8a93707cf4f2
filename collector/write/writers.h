// What writes a Summary. Like all writers of this folder these only format, and compute nothing.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <ostream>
#include <string>

#include "collector/log/log_head.h"
#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

// The holders of every peak as CSV (RFC 4180), one row each. `gpupeak report --csv` calls it.

void write_csv(const Summary& summary, std::ostream& out);

// The summary as JSON, schema gpupeak.summary/1. `gpupeak report --json` calls it.

/// The whole summary.
nlohmann::ordered_json summary_json(const Summary& summary);
void write_json(const Summary& summary, std::ostream& out);

// The phases of a run as one wide table, host and device side by side.

void write_phases(const Summary& summary, std::ostream& out, const TextStyle& style);
/// The summary's phases, schema gpupeak.phases/1.
void write_phases_json(const Summary& summary, std::ostream& out);
/// Alike instances are one row; bytes and nanoseconds, empty if not measured.
void write_phases_csv(const Summary& summary, std::ostream& out);

// The few lines at the end of a run: at most kShortLines, one more for each further GPU, and one
// for each row of a run of several processes. `gpupeak run` prints them; if the library was
// preloaded without it, the library does, through `gpupeak report --short`.

inline constexpr size_t kShortLines = 14;

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

}  // namespace gpupeak::collector
