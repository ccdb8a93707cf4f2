// The report as text: by default one screen, kReportLines at most, or all of it. `gpupeak report`
// calls it.
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
