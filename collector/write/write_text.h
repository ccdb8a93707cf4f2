// The report as text: by default one screen, at most kReportLines, or all of it. `gpupeak report`
// calls it. Like all writers of this folder it only formats, and computes nothing.
//
// in    a Summary: plain values, and the size of each
// out   lines, no wider than the terminal
//
//   peak of device:0, 1048576 bytes; one holder, "load_weights ← main"
//     → "1.00 MiB 100.0 1 load_weights ← main"
#pragma once

#include <ostream>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

inline constexpr size_t kReportLines = 50;

enum class ReportLength { kOneScreen, kFull };

void write_text(const Summary& summary, std::ostream& out, const TextStyle& style = {},
                ReportLength length = ReportLength::kOneScreen);

}  // namespace gpupeak::collector
