// The few lines at the end of a run: at most kShortLines, one more for each further GPU, and one
// for each row of a run of several processes. `gpupeak run` prints them; if the library was
// preloaded without it, the library does, through `gpupeak report --short`.
#pragma once

#include <ostream>

#include "collector/summary/summary.h"
#include "collector/text/text_format.h"

namespace gpupeak::collector {

inline constexpr size_t kShortLines = 14;

/// Contains the lines that scripts look for: "Peak device memory (GPU N): B bytes" for each device
/// that was used, and "Peak host heap: B bytes" if it was measured ("Peak host heap (usable): …" if
/// it was only counted).
void write_short(const Summary& summary, std::ostream& out, const TextStyle& style = {});

}  // namespace gpupeak::collector
