// The few lines at the end of a run: at most kShortLines, and one more for each further GPU and
// each row of a run of several processes. `gpupeak run` prints them, and the preload through
// `gpupeak report --short` when it was used bare.
#pragma once

#include <ostream>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

inline constexpr size_t kShortLines = 14;

/// Holds the two lines that scripts look for: "Peak device memory (GPU N): B bytes", one a device
/// that was used, and "Peak host heap: B bytes" if it was measured.
void write_short(const Summary& summary, std::ostream& out, const TextStyle& style = {});

}  // namespace gpupeak::collector
